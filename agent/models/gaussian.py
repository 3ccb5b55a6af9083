"""The policy's distribution over actions: a Gaussian with one standard deviation for each action."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def log_prob(mean: Tensor, log_std: Tensor, action: Tensor) -> Tensor:
    """Return the log density `[...]` at `action [..., A]`, for `mean [..., A]` and `log_std [A]`."""
    return log_prob_of_noise((action - mean) * torch.exp(-log_std), log_std)


def log_prob_of_noise(noise: Tensor, log_std: Tensor) -> Tensor:
    """Return `log_prob` of the action `mean + exp(log_std) * noise`, for `noise [..., A]`."""
    return -0.5 * noise.square().sum(-1) - log_std.sum() - 0.5 * math.log(2 * math.pi) * noise.shape[-1]


def entropy(log_std: Tensor) -> Tensor:
    """Return the differential entropy (nats) of the distribution with `log_std [A]`."""
    return (log_std + 0.5 * math.log(2 * math.pi * math.e)).sum()
