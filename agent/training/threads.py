"""How a peer divides its cores between stepping robots, computing gradients, and acting."""

from __future__ import annotations

import os

from agent.config import Config

ACTING = 1
"""Torch threads of the main thread: more do not pay for batches of some hundred observations."""

MOST_LEARNING = 4
"""Torch threads for gradients at most: a small model's minibatch does not keep more of them busy."""


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def physics_threads(config: Config) -> int:
    """C++ threads for each actor batch: as configured, or so that all of them together have every core."""
    return config.physics_threads or max(1, cores() // config.num_actor_batches)


def learner_threads(config: Config) -> int:
    """Torch threads for gradients: as configured, or half of the cores; the robots leave some time there."""
    return config.learner_threads or max(1, min(MOST_LEARNING, cores() // 2))
