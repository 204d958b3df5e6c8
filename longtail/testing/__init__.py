"""Data whose right answers are known, for tests of recipes, yours included."""
