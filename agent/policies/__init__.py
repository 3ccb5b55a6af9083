"""Trained policies: load them, measure how they walk, show them, and export them."""
