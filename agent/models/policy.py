"""Policies: a Gaussian actor and a critic behind one observation normaliser, feed-forward or recurrent.

All policies answer the same calls, with time first (`T`), then sequences (`B`):

- `act(obs [B, D], is_first [B], hidden)` steps robots: mean actions `[B, A]` and the next hidden state.
- `unroll(obs [T, B, D], is_first [T, B], hidden)` learns: mean actions `[T, B, A]` and values `[T, B]`.
- `values(obs [T, B, D], is_first [T, B], hidden)` gives values `[T, B]` and the hidden state *after* each
  step `[T, B, H]`, for the targets.
- `value(obs [N, D], hidden)` gives the values `[N]` of one more observation after such hidden states: the
  final one of an episode that a time-out cut.

`is_first[t, b]` says that `obs[t, b]` is the first observation of an episode, so the hidden state before it
is reset to zero. A hidden state is a tuple of tensors `[B, H]`, empty for feed-forward policies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeVar

import torch
from torch import Tensor, nn

from agent.models.equivariant import EquivariantHead, EquivariantLinear, Reflection
from agent.models.normalizer import Normalizer
from envs.go2.robot.symmetry import Mirror
from envs.schema import Count, Positive

Hidden = tuple[Tensor, ...]
"""The hidden state of a recurrent policy; empty for a feed-forward one."""

Layer = TypeVar("Layer", nn.Linear, EquivariantLinear, EquivariantHead)

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "elu": nn.ELU}


@dataclass(frozen=True)
class ModelConfig:
    """The settings below `model.`; conf/model/ explains each."""

    name: Literal["mlp", "lstm"]
    hidden_sizes: tuple[Count, ...]
    activation: Literal["relu", "elu"]
    initial_std: Positive
    mirror: bool
    normalize_observations: bool
    normalizer_interval: Count


class Policy(nn.Module):
    """The parts that all policies share: the normaliser and one standard deviation for each action."""

    def __init__(self, obs_dim: int, action_dim: int, config: ModelConfig) -> None:
        super().__init__()
        self.normalizer = Normalizer(obs_dim)
        self.log_std = nn.Parameter(torch.full((action_dim,), math.log(config.initial_std)))

    def initial_hidden(self, batch_size: int) -> Hidden:
        """Return the hidden state at the start of `batch_size` sequences."""
        return ()

    def act(self, obs: Tensor, is_first: Tensor, hidden: Hidden) -> tuple[Tensor, Hidden]:
        raise NotImplementedError

    def unroll(self, obs: Tensor, is_first: Tensor, hidden: Hidden) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    def values(self, obs: Tensor, is_first: Tensor, hidden: Hidden) -> tuple[Tensor, Hidden]:
        raise NotImplementedError

    def value(self, obs: Tensor, hidden: Hidden) -> Tensor:
        raise NotImplementedError


class MlpPolicy(Policy):
    """Separate actor and critic networks. With a mirror, a gait learned on one side holds on both."""

    def __init__(self, obs_dim: int, action_dim: int, config: ModelConfig, mirror: Mirror | None) -> None:
        super().__init__(obs_dim, action_dim, config)
        activation, widths = ACTIVATIONS[config.activation], config.hidden_sizes
        if config.mirror and mirror is not None:
            obs = Reflection(torch.as_tensor(mirror.obs_index), torch.as_tensor(mirror.obs_sign))
            action = Reflection(torch.as_tensor(mirror.action_index), torch.as_tensor(mirror.action_sign))
            self.normalizer = Normalizer(obs_dim, obs)
            self.actor = _equivariant_mlp(obs, widths, activation, action, gain=0.01)
            self.critic = _equivariant_mlp(obs, widths, activation, Reflection.identity(1), gain=1.0)
        else:
            self.actor = _mlp([obs_dim, *widths], activation, action_dim, gain=0.01)
            self.critic = _mlp([obs_dim, *widths], activation, 1)

    def act(self, obs: Tensor, is_first: Tensor, hidden: Hidden) -> tuple[Tensor, Hidden]:
        return self.actor(self.normalizer(obs)), hidden

    def unroll(self, obs: Tensor, is_first: Tensor, hidden: Hidden) -> tuple[Tensor, Tensor]:
        normal = self.normalizer(obs)
        return self.actor(normal), self.critic(normal).squeeze(-1)

    def values(self, obs: Tensor, is_first: Tensor, hidden: Hidden) -> tuple[Tensor, Hidden]:
        return self.value(obs, hidden), hidden

    def value(self, obs: Tensor, hidden: Hidden) -> Tensor:
        values: Tensor = self.critic(self.normalizer(obs)).squeeze(-1)
        return values


class LstmPolicy(Policy):
    """Actor and critic heads on one LSTM, behind an encoder if there is more than one hidden size."""

    def __init__(self, obs_dim: int, action_dim: int, config: ModelConfig) -> None:
        super().__init__(obs_dim, action_dim, config)
        *encoder, width = config.hidden_sizes
        activation = ACTIVATIONS[config.activation]
        self.encoder = _mlp([obs_dim, *encoder], activation)
        self.core = nn.LSTMCell(([obs_dim, *encoder])[-1], width)
        self.actor = _mlp([width], activation, action_dim, gain=0.01)
        self.critic = _mlp([width], activation, 1)

    def initial_hidden(self, batch_size: int) -> Hidden:
        zeros = torch.zeros(batch_size, self.core.hidden_size, device=self.log_std.device)
        return (zeros, zeros.clone())

    def act(self, obs: Tensor, is_first: Tensor, hidden: Hidden) -> tuple[Tensor, Hidden]:
        hidden = self._step(self.encoder(self.normalizer(obs)), is_first, hidden)
        return self.actor(hidden[0]), hidden

    def unroll(self, obs: Tensor, is_first: Tensor, hidden: Hidden) -> tuple[Tensor, Tensor]:
        outputs, _ = self._all_hidden(obs, is_first, hidden)
        return self.actor(outputs), self.critic(outputs).squeeze(-1)

    def values(self, obs: Tensor, is_first: Tensor, hidden: Hidden) -> tuple[Tensor, Hidden]:
        states = self._all_hidden(obs, is_first, hidden)
        return self.critic(states[0]).squeeze(-1), states

    def value(self, obs: Tensor, hidden: Hidden) -> Tensor:
        outputs, _ = self.core(self.encoder(self.normalizer(obs)), hidden)
        values: Tensor = self.critic(outputs).squeeze(-1)
        return values

    def _all_hidden(self, obs: Tensor, is_first: Tensor, hidden: Hidden) -> Hidden:
        """Return the hidden state after each step, `[T, B, H]` each."""
        states = []
        for x, first in zip(self.encoder(self.normalizer(obs)), is_first, strict=True):
            hidden = self._step(x, first, hidden)
            states.append(hidden)
        return tuple(torch.stack(parts) for parts in zip(*states, strict=True))

    def _step(self, x: Tensor, is_first: Tensor, hidden: Hidden) -> Hidden:
        keep = (~is_first).to(x.dtype).unsqueeze(-1)
        following: Hidden = self.core(x, tuple(part * keep for part in hidden))
        return following


def make_policy(config: ModelConfig, obs_dim: int, action_dim: int, mirror: Mirror | None) -> Policy:
    """Return the policy that `config.name` names, with freshly initialised weights."""
    if config.name == "lstm":
        return LstmPolicy(obs_dim, action_dim, config)
    return MlpPolicy(obs_dim, action_dim, config, mirror)


def _mlp(
    sizes: Sequence[int], activation: type[nn.Module], out: int | None = None, gain: float = 1.0
) -> nn.Sequential:
    """Return orthogonal layers (gain √2), then, if `out` is given, a linear one with `gain`."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [_orthogonal(nn.Linear(inputs, outputs), math.sqrt(2)), activation()]
    if out is not None:
        layers.append(_orthogonal(nn.Linear(sizes[-1], out), gain))
    return nn.Sequential(*layers)


def _equivariant_mlp(
    inputs: Reflection, widths: Sequence[int], activation: type[nn.Module], outputs: Reflection, gain: float
) -> nn.Sequential:
    """Return the same as `_mlp`, of layers that commute with the reflections."""
    layers: list[nn.Module] = []
    for width in widths:
        layers += [_orthogonal(EquivariantLinear(inputs, width), math.sqrt(2)), activation()]
        inputs = Reflection.of_pairs(width)
    return nn.Sequential(*layers, _orthogonal(EquivariantHead(inputs, outputs), gain))


def _orthogonal(layer: Layer, gain: float) -> Layer:
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer
