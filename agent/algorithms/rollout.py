"""Rollouts as the actors fill them, and minibatches as the learner reads them: time first, then robots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from agent.models.policy import Hidden

SAVED_AS = {"is_first": "start"}
"""Names in checkpoints of the fields that are called otherwise there."""


@dataclass
class Rollout:
    """Transitions of `B` robots over `T` policy steps; the last observation of one rollout is the first of
    the next.

    Attributes:
        obs: `[T + 1, B, D]`.
        is_first: `[T + 1, B]` bool, the observation is the first of an episode.
        action: `[T, B, A]`.
        log_prob: `[T, B]` of the action under the policy that chose it.
        reward: `[T, B]`.
        terminated: `[T, B]` bool, the episode ended for good (a fall).
        truncated: `[T, B]` bool, a time-out cut the episode.
        final_obs: `[T, B, D]`, the last observation of an episode; valid where `truncated`.
        version: `[T]` int64, version of the model that acted.
        hidden: the hidden state before the first observation, `[B, H]` each.
    """

    obs: Tensor
    is_first: Tensor
    action: Tensor
    log_prob: Tensor
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    final_obs: Tensor
    version: Tensor
    hidden: Hidden = ()

    @classmethod
    def allocate(
        cls, steps: int, robots: int, obs_dim: int, action_dim: int, device: torch.device
    ) -> Rollout:
        """Return a rollout of zeros."""

        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(*shape, dtype=dtype, device=device)

        return cls(
            obs=zeros(steps + 1, robots, obs_dim),
            is_first=zeros(steps + 1, robots, dtype=torch.bool),
            action=zeros(steps, robots, action_dim),
            log_prob=zeros(steps, robots),
            reward=zeros(steps, robots),
            terminated=zeros(steps, robots, dtype=torch.bool),
            truncated=zeros(steps, robots, dtype=torch.bool),
            final_obs=zeros(steps, robots, obs_dim),
            version=zeros(steps, dtype=torch.int64),
        )

    def state_dict(self) -> dict[str, Any]:
        """Return copies of the tensors, by their names in checkpoints."""
        names = [field.name for field in fields(self) if field.name != "hidden"]
        tensors = {SAVED_AS.get(name, name): getattr(self, name).clone() for name in names}
        return tensors | {"memory": [part.clone() for part in self.hidden]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Copy the tensors of `state_dict()` into this rollout's own."""
        for field in fields(self):
            if field.name != "hidden":
                getattr(self, field.name).copy_(state[SAVED_AS.get(field.name, field.name)])
        self.hidden = tuple(part.to(self.obs.device) for part in state["memory"])


@dataclass
class Minibatch:
    """Whole unrolls of `B` sequences and their targets, `[T, B, ...]`; `hidden` as in `Rollout`.

    `value`, `target` and `advantage` `[T, B]` come from the model as it was when learning began.
    """

    obs: Tensor
    is_first: Tensor
    action: Tensor
    log_prob: Tensor
    value: Tensor
    target: Tensor
    advantage: Tensor
    hidden: Hidden

    def select(self, index: Tensor) -> Minibatch:
        """Return a copy of the sequences `index [B']`."""
        tensors = {f.name: getattr(self, f.name)[:, index] for f in fields(self) if f.name != "hidden"}
        return Minibatch(**tensors, hidden=tuple(part[index] for part in self.hidden))


def minibatches(
    batch: Minibatch, batch_size: int, epochs: int, generator: torch.Generator
) -> Iterator[Minibatch]:
    """Yield minibatches of `batch_size` whole unrolls, in a new random order in every epoch."""
    sequences = batch.advantage.shape[1]
    for _ in range(epochs):
        order = torch.randperm(sequences, generator=generator).to(batch.advantage.device)
        for index in order.split(batch_size):
            yield batch.select(index)
