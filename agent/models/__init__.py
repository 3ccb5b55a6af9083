"""The policies: networks, the normaliser of their observations, and their distribution over actions."""
