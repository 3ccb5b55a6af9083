"""Policies and the layers that they are made of."""
