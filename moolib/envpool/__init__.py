"""Batched environments in worker processes."""
