"""Which method for my data: recipes trained side by side, judged alike."""
