"""One rollout of a peer: `unroll_length` steps of all its robots, time first, as the learner reads it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from agent.models.policy import Memory


@dataclass
class Rollout:
    """Transitions of `B` robots over `T` policy steps; the last observation of one rollout is the first of
    the next.

    obs [T + 1, B, D], start [T + 1, B] (the observation is an episode's first), action [T, B, A], log_prob
    [T, B] of the action under the policy that chose it, reward [T, B], terminated and truncated [T, B],
    final_obs [T, B, D] (valid where truncated), version [T] of the model that acted, memory: the recurrent
    state before the first observation, `[B, H]` each.
    """

    obs: Tensor
    start: Tensor
    action: Tensor
    log_prob: Tensor
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    final_obs: Tensor
    version: Tensor
    memory: Memory = ()

    @classmethod
    def allocate(
        cls, steps: int, robots: int, obs_dim: int, action_dim: int, device: torch.device
    ) -> Rollout:
        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(*shape, dtype=dtype, device=device)

        return cls(
            obs=zeros(steps + 1, robots, obs_dim),
            start=zeros(steps + 1, robots, dtype=torch.bool),
            action=zeros(steps, robots, action_dim),
            log_prob=zeros(steps, robots),
            reward=zeros(steps, robots),
            terminated=zeros(steps, robots, dtype=torch.bool),
            truncated=zeros(steps, robots, dtype=torch.bool),
            final_obs=zeros(steps, robots, obs_dim),
            version=zeros(steps, dtype=torch.int64),
        )

    def state_dict(self) -> dict[str, Any]:
        """The rollout's tensors, copied."""
        tensors = {f.name: getattr(self, f.name).clone() for f in fields(self) if f.name != "memory"}
        return tensors | {"memory": [part.clone() for part in self.memory]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            if name != "memory":
                getattr(self, name).copy_(value)
        self.memory = tuple(part.to(self.obs.device) for part in state["memory"])


@dataclass
class Minibatch:
    """Whole unrolls of `B` sequences with their targets, `[T, B, ...]`; `memory` as in `Rollout`."""

    obs: Tensor
    start: Tensor
    action: Tensor
    log_prob: Tensor
    value: Tensor
    target: Tensor
    advantage: Tensor
    memory: Memory

    def select(self, index: Tensor) -> Minibatch:
        """The sequences `index [B']`, copied."""
        tensors = {f.name: getattr(self, f.name)[:, index] for f in fields(self) if f.name != "memory"}
        return Minibatch(**tensors, memory=tuple(part[index] for part in self.memory))
