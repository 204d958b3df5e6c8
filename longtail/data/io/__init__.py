"""The files of a data set: read, checked, written and imported."""
