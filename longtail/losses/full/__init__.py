"""Losses over all labels, some thousand labels at a time."""
