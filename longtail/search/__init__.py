"""Vectors to ranked labels."""
