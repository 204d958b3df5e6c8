"""What is shown of results: tables, plots, pages."""
