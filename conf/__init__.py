"""Hydra configuration: `config.yaml` and the groups `env`, `algorithm`, `model`, `machine`, `scenario`."""
