"""What an algorithm asks of the policy: its loss for actions that turned out better or worse than expected.

`POLICY_LOSSES` is the table of them, by the algorithm's name; a further entry is a further algorithm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from agent.config import AlgorithmConfig

PolicyLoss = Callable[[Tensor, Tensor, "AlgorithmConfig"], Tensor]


def ppo(log_ratio: Tensor, advantage: Tensor, config: AlgorithmConfig) -> Tensor:
    """PPO's clipped surrogate (Schulman et al. 2017, arXiv 1707.06347).

    Args:
        log_ratio: Log probability of each action now minus when it was chosen `[T, B]`.
        advantage: Its advantage `[T, B]`.
        config: The algorithm's settings.

    Returns:
        The loss, a scalar.
    """
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - config.clip, 1 + config.clip)
    return -torch.min(ratio * advantage, clipped * advantage).mean()


def vtrace(log_ratio: Tensor, advantage: Tensor, config: AlgorithmConfig) -> Tensor:
    """The policy gradient; the importance weights are in V-trace's advantages. Arguments as of `ppo`."""
    return -(log_ratio * advantage).mean()


POLICY_LOSSES: dict[str, PolicyLoss] = {"ppo": ppo, "vtrace": vtrace}
