"""Files: written as a whole or not at all; checkpoints; where this program's own files are."""
