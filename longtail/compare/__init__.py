"""Which method for my data: recipes trained side by side, judged alike, and the tables and pages that say so."""
