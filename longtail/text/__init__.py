"""Texts to tokens: bags, sequences of words, subwords."""
