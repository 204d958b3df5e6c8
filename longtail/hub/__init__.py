"""Models on a hub of Hugging Face: pushed with a card, and pulled with the checks of any model folder."""
