"""What we learn from: data sets, their files and graphs."""
