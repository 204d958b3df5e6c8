"""Labels for millions of texts: what ranks a batch of rows, and jobs over many files that go on where they stopped."""
