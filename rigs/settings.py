"""Configurations for tests: a tiny one for processes, and any that Hydra can compose."""

from __future__ import annotations

from agent.cli.overrides import compose as compose

TINY = [
    "env=go2", "actor_batch_size=4", "unroll_length=6", "model.hidden_sizes=[16,16]", "physics_threads=1",
    "learner_threads=1", "log_interval=1e-6", "batch_size=8", "virtual_batch_size=8",
]  # fmt: skip
"""Overrides with which a peer takes some hundred steps/s even on a busy core."""
