"""A policy with one weight and rollouts written by hand, whose losses can be computed on paper."""

import torch
from torch import Tensor, nn

from agent.algorithms.objective import AlgorithmConfig
from agent.algorithms.optimizer import OptimizerConfig
from agent.algorithms.rollout import Rollout
from agent.models.gaussian import log_prob
from agent.models.policy import Hidden, Policy

OPTIMIZER = OptimizerConfig(1e-3, "constant", 1e-3, 1, 0.01, 0.9, 0.999, 1e-8)
PPO = AlgorithmConfig(
    name="ppo", discounting=0.5, trace_decay=0.5, epochs=2, clip=0.2, clip_rho=1.0, clip_c=1.0, targets="gae",
    baseline_cost=0.5, clip_value=False, entropy_cost=0.0, normalize_advantages=False, grad_norm_clipping=1.0,
    optimizer=OPTIMIZER,
)  # fmt: skip


class Toy(Policy):
    """Mean action = w · obs, value = sum of obs; one observation and one action number."""

    def __init__(self) -> None:
        nn.Module.__init__(self)  # without the parts of a real policy
        self.w = nn.Parameter(torch.tensor(1.0, dtype=torch.float64))
        self.log_std = nn.Parameter(torch.zeros(1, dtype=torch.float64))

    def unroll(self, obs: Tensor, is_first: Tensor, hidden: Hidden) -> tuple[Tensor, Tensor]:
        return self.w * obs, obs.sum(-1)

    def values(self, obs: Tensor, is_first: Tensor, hidden: Hidden) -> tuple[Tensor, Hidden]:
        return obs.sum(-1), hidden

    def value(self, obs: Tensor, hidden: Hidden) -> Tensor:
        return obs.sum(-1)


def rollout(
    observations: list[float],
    reward: list[float],
    terminated: list[int],
    truncated: list[int],
    final_obs: list[float],
) -> Rollout:
    """Return a rollout of one robot, driven by the toy itself, each action being its mean."""

    def column(numbers: list[float] | list[int], dtype: torch.dtype = torch.float64) -> Tensor:
        return torch.tensor(numbers, dtype=dtype).unsqueeze(1)

    obs = column(observations).unsqueeze(-1)
    return Rollout(
        obs=obs,
        is_first=torch.zeros(len(obs), 1, dtype=torch.bool),
        action=obs[:-1].clone(),
        log_prob=log_prob(obs[:-1], torch.zeros(1, dtype=torch.float64), obs[:-1]),
        reward=column(reward),
        terminated=column(terminated, torch.bool),
        truncated=column(truncated, torch.bool),
        final_obs=column(final_obs).unsqueeze(-1),
        version=torch.zeros(len(reward), dtype=torch.int64),
    )
