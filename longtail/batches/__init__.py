"""Who meets whom: which documents share a batch, and which labels their pool holds."""
