"""Connections between named peers: addresses, frames, security, and how peers find each other."""
