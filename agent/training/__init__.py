"""The training loop of one peer and its parts."""
