"""A policy with one weight and rollouts written by hand, whose losses can be computed on paper."""

import torch
from torch import nn

from agent.algorithms.objective import log_prob
from agent.algorithms.rollout import Rollout
from agent.config import AlgorithmConfig, OptimizerConfig

OPTIMIZER = OptimizerConfig(1e-3, "constant", 1e-3, 1, 0.01, 0.9, 0.999, 1e-8)
PPO = AlgorithmConfig(
    name="ppo", discounting=0.5, trace_decay=0.5, epochs=2, clip=0.2, clip_rho=1.0, clip_c=1.0, targets="gae",
    baseline_cost=0.5, clip_value=False, entropy_cost=0.0, normalize_advantages=False, grad_norm_clipping=1.0,
    optimizer=OPTIMIZER,
)  # fmt: skip


class Toy(nn.Module):
    """Mean action = w · obs, value = sum of obs; one observation and one action number."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.tensor(1.0, dtype=torch.float64))
        self.log_std = nn.Parameter(torch.zeros(1, dtype=torch.float64))

    def unroll(self, obs, start, memory):
        return self.w * obs, obs.sum(-1)

    def values(self, obs, start, memory):
        return obs.sum(-1), memory

    def value(self, obs, memory):
        return obs.sum(-1)


def rollout(obs, reward, terminated, truncated, final_obs):
    """One robot; the policy that acted was the toy itself, and each action its mean."""

    def column(numbers, dtype=torch.float64):
        return torch.tensor(numbers, dtype=dtype).unsqueeze(1)

    obs = column(obs).unsqueeze(-1)
    return Rollout(
        obs=obs,
        start=torch.zeros(len(obs), 1, dtype=torch.bool),
        action=obs[:-1].clone(),
        log_prob=log_prob(obs[:-1], torch.zeros(1, dtype=torch.float64), obs[:-1]),
        reward=column(reward),
        terminated=column(terminated, torch.bool),
        truncated=column(truncated, torch.bool),
        final_obs=column(final_obs).unsqueeze(-1),
        version=torch.zeros(len(reward), dtype=torch.int64),
    )
