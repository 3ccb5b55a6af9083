"""Hydra configuration tree: `config.yaml` and its groups `env`, `algorithm`, `model`, `scenario`."""
