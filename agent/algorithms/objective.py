"""PPO and V-trace: what a rollout is turned into, and the loss of one minibatch of it.

Both work on whole unrolls, cut along the sequences, so that batch sizes keep their meaning and recurrent
models learn. The probability ratio is taken against the policy that really chose each action, so data stays
usable when other peers have moved the model since; it only counts less once the ratio leaves PPO's clip
range.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from agent.algorithms.policy_losses import POLICY_LOSSES
from agent.algorithms.returns import next_values, vtrace
from agent.algorithms.rollout import Minibatch, Rollout
from agent.config import AlgorithmConfig
from agent.models.policy import Policy

METRICS = ("policy_loss", "baseline_loss", "entropy", "kl", "clip_fraction")
"""Names of the scalars that `loss` returns beside the loss, in order."""


def log_prob(mean: Tensor, log_std: Tensor, action: Tensor) -> Tensor:
    """Log density `[...]` of a diagonal Gaussian at `action [..., A]`."""
    return log_prob_of_noise((action - mean) * torch.exp(-log_std), log_std)


def log_prob_of_noise(noise: Tensor, log_std: Tensor) -> Tensor:
    """`log_prob` of the action `mean + exp(log_std) * noise`, for `noise [..., A]`."""
    return -0.5 * noise.square().sum(-1) - log_std.sum() - 0.5 * math.log(2 * math.pi) * noise.shape[-1]


def entropy(log_std: Tensor) -> Tensor:
    """Differential entropy (nats) of a diagonal Gaussian with `log_std [A]`."""
    return (log_std + 0.5 * math.log(2 * math.pi * math.e)).sum()


@torch.no_grad()
def prepare(policy: Policy, rollout: Rollout, config: AlgorithmConfig) -> Minibatch:
    """Values, targets and advantages of a whole rollout under the model as it is now."""
    values, memories = policy.values(rollout.obs, rollout.start, rollout.memory)
    final_values = torch.zeros_like(rollout.reward)
    cut = rollout.truncated
    if cut.any():
        memory_then = tuple(part[:-1][cut] for part in memories)
        final_values[cut] = policy.value(rollout.final_obs[cut], memory_then)
    log_rhos = None
    if config.targets == "vtrace":
        means, _ = policy.unroll(rollout.obs[:-1], rollout.start[:-1], rollout.memory)
        log_rhos = log_prob(means, policy.log_std, rollout.action) - rollout.log_prob
    target, advantage = vtrace(
        rollout.reward,
        values[:-1],
        next_values(values, final_values, rollout.terminated, rollout.truncated),
        rollout.terminated | rollout.truncated,
        log_rhos,
        config.discounting,
        config.trace_decay,
        config.clip_rho,
        config.clip_c,
    )
    if config.normalize_advantages:
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    return Minibatch(
        obs=rollout.obs[:-1],
        start=rollout.start[:-1],
        action=rollout.action,
        log_prob=rollout.log_prob,
        value=values[:-1],
        target=target,
        advantage=advantage,
        memory=rollout.memory,
    )


def minibatches(
    batch: Minibatch, batch_size: int, epochs: int, generator: torch.Generator
) -> Iterator[Minibatch]:
    """Minibatches of `batch_size` whole unrolls each, in a new random order every epoch."""
    sequences = batch.advantage.shape[1]
    for _ in range(epochs):
        order = torch.randperm(sequences, generator=generator).to(batch.advantage.device)
        for index in order.split(batch_size):
            yield batch.select(index)


def loss(policy: Policy, batch: Minibatch, config: AlgorithmConfig) -> tuple[Tensor, Tensor]:
    """The loss of one minibatch, and `METRICS` of it as one tensor without gradient."""
    means, values = policy.unroll(batch.obs, batch.start, batch.memory)
    log_ratio = log_prob(means, policy.log_std, batch.action) - batch.log_prob
    ratio = log_ratio.exp()
    policy_loss = POLICY_LOSSES[config.name](log_ratio, batch.advantage, config)
    baseline_loss = (values - batch.target).square()
    if config.clip_value:
        near = batch.value + (values - batch.value).clamp(-config.clip, config.clip)
        baseline_loss = torch.max(baseline_loss, (near - batch.target).square())
    baseline_loss = baseline_loss.mean()
    bonus = entropy(policy.log_std)
    total = policy_loss + config.baseline_cost * baseline_loss - config.entropy_cost * bonus
    with torch.no_grad():
        kl = (ratio - 1 - log_ratio).mean()  # Schulman's estimator of KL(old, new), "k3": never negative
        outside = ((ratio - 1).abs() > config.clip).to(ratio.dtype).mean()
        metrics = torch.stack([policy_loss, baseline_loss, bonus, kl, outside])
    return total, metrics
