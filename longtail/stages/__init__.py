"""The paragraphs that recipes share."""
