"""Encoders of texts, one file each."""
