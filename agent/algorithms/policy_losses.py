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
    """The policy gradient within a trust region; the importance weights are in V-trace's advantages.

    A sample whose action has already become more (or less) probable by the factor 1 +- `clip` in the
    direction that its advantage asks for is left out, so that a rollout can be used for several epochs, as in
    LASER (Schmitt et al. 2020, arXiv 1909.11583). Arguments and result as of `ppo`.
    """
    ratio = log_ratio.detach().exp()
    trusted = torch.where(advantage > 0, ratio < 1 + config.clip, ratio > 1 - config.clip)
    return -(log_ratio * advantage * trusted).mean()


POLICY_LOSSES: dict[str, PolicyLoss] = {"ppo": ppo, "vtrace": vtrace}
