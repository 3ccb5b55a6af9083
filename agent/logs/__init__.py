"""The records of a run: its log, its metadata, its console output, and summaries of them."""
