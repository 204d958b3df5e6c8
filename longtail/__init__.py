"""Extreme multi-label classification: rank the few relevant labels of a text out of 10^4 to 10^8."""
