"""Policies: a Gaussian actor and a critic, as perceptrons or on an LSTM, behind one observation normaliser.

Both models answer the same questions, with time first (`T`), then sequences (`B`):

- `act(obs [B, D], start [B], memory)`: the mean action `[B, A]` and the next memory, when stepping robots;
- `unroll(obs [T, B, D], start [T, B], memory)`: means `[T, B, A]` and values `[T, B]`, when learning.

For the targets, `values(obs [T, B, D], start, memory)` gives values `[T, B]` and the memory *after* each
step, and `value(obs [N, D], memory)` the value of one more observation that follows such a memory: the last
one of an episode that was cut by a time-out.

`start[t, b]` says that `obs[t, b]` is the first of an episode, so the memory before it is forgotten. A
memory is a tuple of tensors, empty for the perceptrons.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

import torch
from torch import Tensor, nn

from agent.config import ModelConfig
from agent.symmetric import Lift, Project, Reflection
from envs.go2.robot.symmetry import Mirror

Memory = tuple[Tensor, ...]

Layer = TypeVar("Layer", nn.Linear, Lift, Project)

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "elu": nn.ELU}


class Normalizer(nn.Module):
    """Observations to mean 0 and variance 1, by moments that all peers of a group agree on.

    `add` takes in sums over the group's observations, `fold` puts them into use. Both happen at the same
    update on every peer, with what the group has reduced, so the replicas stay equal. With a mirror, each
    observation counts as itself and its mirror image, so that normalising commutes with the reflection.
    """

    count: Tensor
    sum: Tensor
    square_sum: Tensor
    mean: Tensor
    inverse_std: Tensor

    MAX_DEVIATIONS = 10.0  # normalised observations are clipped here, as in CleanRL

    def __init__(self, size: int, mirror: Reflection | None = None) -> None:
        super().__init__()
        self.mirror = mirror or Reflection.identity(size)
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("sum", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("square_sum", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("inverse_std", torch.ones(size))

    def forward(self, obs: Tensor) -> Tensor:
        normal = (obs - self.mean) * self.inverse_std
        return normal.clamp(-self.MAX_DEVIATIONS, self.MAX_DEVIATIONS)

    @staticmethod
    def moments(obs: Tensor) -> Tensor:
        """Count, sum and sum of squares of observations `[..., D]` as one vector `[1 + 2 D]`."""
        flat = obs.reshape(-1, obs.shape[-1])
        return torch.cat([flat.new_tensor([float(len(flat))]), flat.sum(0), flat.square().sum(0)])

    def add(self, moments: Tensor) -> None:
        """Adds reduced moments `[1 + 2 D]`; `forward` uses them after the next `fold()`."""
        size = len(self.mean)
        moments = moments.to(self.sum)
        self.count += moments[0]
        self.sum += moments[1 : 1 + size]
        self.square_sum += moments[1 + size :]

    def fold(self) -> None:
        """Takes the moments added so far into use."""
        if self.count > 0:
            index, sign = self.mirror.index.to(self.sum.device), self.mirror.sign.to(self.sum.device)
            mean = 0.5 * (self.sum + self.sum[index] * sign) / self.count
            square = 0.5 * (self.square_sum + self.square_sum[index]) / self.count
            variance = (square - mean.square()).clamp(min=0)
            self.mean.copy_(mean)
            self.inverse_std.copy_((variance + 1e-4).rsqrt())  # 1e-4: a constant observation stays finite


def _perceptron(
    sizes: Sequence[int], activation: type[nn.Module], out: int | None = None, gain: float = 1.0
) -> nn.Sequential:
    """Layers with orthogonal weights (gain √2), then, if `out` is given, a linear one with `gain`."""
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [_orthogonal(nn.Linear(before, after), math.sqrt(2)), activation()]
    if out is not None:
        layers.append(_orthogonal(nn.Linear(sizes[-1], out), gain))
    return nn.Sequential(*layers)


def _symmetric_perceptron(
    before: Reflection, widths: Sequence[int], activation: type[nn.Module], after: Reflection, gain: float
) -> nn.Sequential:
    """As `_perceptron`, of layers that commute with the reflections."""
    layers: list[nn.Module] = []
    for width in widths:
        layers += [_orthogonal(Lift(before, width), math.sqrt(2)), activation()]
        before = Reflection.of_pairs(width)
    return nn.Sequential(*layers, _orthogonal(Project(before, after), gain))


def _orthogonal(layer: Layer, gain: float) -> Layer:
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class Policy(nn.Module):
    """What both models share: the normaliser and the actions' standard deviations, one for each joint."""

    def __init__(self, obs_dim: int, action_dim: int, config: ModelConfig) -> None:
        super().__init__()
        self.normalizer = Normalizer(obs_dim)
        self.log_std = nn.Parameter(torch.full((action_dim,), math.log(config.initial_std)))

    def initial_memory(self, batch_size: int) -> Memory:
        return ()

    def act(self, obs: Tensor, start: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        raise NotImplementedError

    def unroll(self, obs: Tensor, start: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    def values(self, obs: Tensor, start: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        raise NotImplementedError

    def value(self, obs: Tensor, memory: Memory) -> Tensor:
        raise NotImplementedError


class PerceptronPolicy(Policy):
    """Separate actor and critic. With a mirror, no gait limps: what is learned on one side holds on both."""

    def __init__(self, obs_dim: int, action_dim: int, config: ModelConfig, mirror: Mirror | None) -> None:
        super().__init__(obs_dim, action_dim, config)
        activation, widths = ACTIVATIONS[config.activation], config.hidden_sizes
        if config.mirror and mirror is not None:
            obs = Reflection(torch.as_tensor(mirror.obs_index), torch.as_tensor(mirror.obs_sign))
            action = Reflection(torch.as_tensor(mirror.action_index), torch.as_tensor(mirror.action_sign))
            self.normalizer = Normalizer(obs_dim, obs)
            self.actor = _symmetric_perceptron(obs, widths, activation, action, gain=0.01)
            self.critic = _symmetric_perceptron(obs, widths, activation, Reflection.identity(1), gain=1.0)
        else:
            self.actor = _perceptron([obs_dim, *widths], activation, action_dim, gain=0.01)
            self.critic = _perceptron([obs_dim, *widths], activation, 1)

    def act(self, obs: Tensor, start: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        return self.actor(self.normalizer(obs)), memory

    def unroll(self, obs: Tensor, start: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        normal = self.normalizer(obs)
        return self.actor(normal), self.critic(normal).squeeze(-1)

    def values(self, obs: Tensor, start: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        return self.value(obs, memory), memory

    def value(self, obs: Tensor, memory: Memory) -> Tensor:
        return self.critic(self.normalizer(obs)).squeeze(-1)


class RecurrentPolicy(Policy):
    """Actor and critic heads on one LSTM."""

    def __init__(self, obs_dim: int, action_dim: int, config: ModelConfig) -> None:
        super().__init__(obs_dim, action_dim, config)
        *encoder, hidden = config.hidden_sizes
        activation = ACTIVATIONS[config.activation]
        self.encoder = _perceptron([obs_dim, *encoder], activation)
        self.core = nn.LSTMCell(([obs_dim, *encoder])[-1], hidden)
        self.actor = _perceptron([hidden], activation, action_dim, gain=0.01)
        self.critic = _perceptron([hidden], activation, 1)

    def initial_memory(self, batch_size: int) -> Memory:
        zeros = torch.zeros(batch_size, self.core.hidden_size, device=self.log_std.device)
        return (zeros, zeros.clone())

    def act(self, obs: Tensor, start: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        memory = self._step(self.encoder(self.normalizer(obs)), start, memory)
        return self.actor(memory[0]), memory

    def unroll(self, obs: Tensor, start: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        hidden, _ = self._memories(obs, start, memory)
        return self.actor(hidden), self.critic(hidden).squeeze(-1)

    def values(self, obs: Tensor, start: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        memories = self._memories(obs, start, memory)
        return self.critic(memories[0]).squeeze(-1), memories

    def _memories(self, obs: Tensor, start: Tensor, memory: Memory) -> Memory:
        """The memory after each step, `[T, B, H]` each."""
        steps = []
        for x, begins in zip(self.encoder(self.normalizer(obs)), start, strict=True):
            memory = self._step(x, begins, memory)
            steps.append(memory)
        return tuple(torch.stack(parts) for parts in zip(*steps, strict=True))

    def value(self, obs: Tensor, memory: Memory) -> Tensor:
        hidden, _ = self.core(self.encoder(self.normalizer(obs)), memory)
        return self.critic(hidden).squeeze(-1)

    def _step(self, x: Tensor, start: Tensor, memory: Memory) -> Memory:
        keep = (~start).to(x.dtype).unsqueeze(-1)
        return self.core(x, tuple(part * keep for part in memory))


def make_policy(config: ModelConfig, obs_dim: int, action_dim: int, mirror: Mirror | None) -> Policy:
    if config.name == "lstm":
        return RecurrentPolicy(obs_dim, action_dim, config)
    return PerceptronPolicy(obs_dim, action_dim, config, mirror)
