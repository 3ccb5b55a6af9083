"""What a run records, and what is read from it."""
