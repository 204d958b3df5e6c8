"""Numbers from scores: every loss is a function of scores, targets and mask, and each is one line of algebra."""
