"""What we learn from: data sets, their files, graphs and tokens."""
