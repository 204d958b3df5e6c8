"""Things with parameters: encoders of text, and the vectors of labels."""
