"""The optimizer: its settings, learning-rate schedules, and gradient clipping that all replicas agree on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from envs.schema import Bounds, Count, Positive

# The adaptive rule of rsl_rl: change by this factor when the KL divergence leaves [half, twice] the desired
# one, within these bounds.
ADAPTIVE_FACTOR = 1.5
ADAPTIVE_BOUNDS = (1e-5, 1e-2)

Momentum = Annotated[float, Bounds(low=0.0, high=0.99999)]


@dataclass(frozen=True)
class OptimizerConfig:
    """The settings below `algorithm.optimizer.`; conf/algorithm/ explains each."""

    learning_rate: Positive
    schedule: Literal["constant", "linear", "adaptive"]
    final_learning_rate: Positive
    schedule_updates: Count
    desired_kl: Positive
    beta_1: Momentum
    beta_2: Momentum
    epsilon: Positive


def make_optimizer(config: OptimizerConfig, parameters: Sequence[nn.Parameter]) -> torch.optim.Adam:
    """Return Adam (Kingma & Ba 2015, arXiv 1412.6980) over the parameters."""
    return torch.optim.Adam(
        parameters,
        lr=config.learning_rate,
        betas=(config.beta_1, config.beta_2),
        eps=config.epsilon,
        fused=True,
    )


def next_learning_rate(config: OptimizerConfig, current: float, updates: int, kl: float) -> float:
    """Return the learning rate of update number `updates`, counted from 1.

    Args:
        config: The schedule and its settings.
        current: Learning rate of the update before.
        updates: Number of this update.
        kl: The group's mean KL divergence from the behaviour policy in this update (nats).
    """
    if config.schedule == "linear":
        done = min((updates - 1) / config.schedule_updates, 1.0)
        return config.learning_rate + done * (config.final_learning_rate - config.learning_rate)
    if config.schedule == "adaptive":
        low, high = ADAPTIVE_BOUNDS
        if kl > 2.0 * config.desired_kl:
            return max(current / ADAPTIVE_FACTOR, low)
        if 0.0 < kl < 0.5 * config.desired_kl:
            return min(current * ADAPTIVE_FACTOR, high)
        return current
    return config.learning_rate


@torch.no_grad()
def clip_gradients(parameters: Sequence[Tensor], max_norm: float) -> float:
    """Scale the gradients in place to a norm of at most `max_norm`, and return the norm they had.

    The norm is rounded to six significant digits: the order of a floating-point sum depends on a machine's
    vector width and number of threads, and the replicas must agree on the scale.
    """
    squares = [p.grad.double().square().sum() for p in parameters if p.grad is not None]
    norm = float(f"{math.sqrt(float(torch.stack(squares).sum())):.6g}") if squares else 0.0
    if norm > max_norm:
        for p in parameters:
            if p.grad is not None:
                p.grad.mul_(max_norm / norm)
    return norm
