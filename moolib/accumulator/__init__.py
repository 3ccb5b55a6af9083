"""Gradient accumulation over the members of a group."""
