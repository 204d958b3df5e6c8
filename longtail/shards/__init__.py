"""The parts that a step is cut into, and what they send each other."""
