"""A trained model behind HTTP, with labels that come and go."""
