"""Trained policies: load, evaluate, show."""
