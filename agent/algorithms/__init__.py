"""Rollouts, returns and the training objective."""
