"""What a run would take at a size that nobody has at hand: memory, traffic, time and price, reckoned from shapes."""
