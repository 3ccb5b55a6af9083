"""The training loop of one peer, and the parts that it calls."""
