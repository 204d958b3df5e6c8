"""The one training loop, its optimiser, its checkpoints and its log."""
