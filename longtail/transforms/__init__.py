"""Other training rows, targets and edges, made of those that are given."""
