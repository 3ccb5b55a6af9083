"""PPO and V-trace: the targets of a rollout, and the loss of one minibatch of it.

Both work on whole unrolls, cut along the sequences, so batch sizes keep their meaning and recurrent policies
learn. The probability ratio is taken against the policy that chose each action, so data stays usable when
other peers have updated the model since; a sample only counts less once its ratio leaves the clip range.

`POLICY_LOSSES` is the table of algorithms by name; another entry is another algorithm.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from agent.algorithms.optimizer import OptimizerConfig
from agent.algorithms.returns import next_values, vtrace_returns
from agent.algorithms.rollout import Minibatch, Rollout
from agent.models.gaussian import entropy, log_prob
from agent.models.policy import Policy
from envs.schema import Count, NonNegative, Positive, Probability

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AlgorithmConfig:
    """The settings below `algorithm.`; conf/algorithm/ explains each."""

    name: str  # of POLICY_LOSSES
    discounting: Probability
    trace_decay: Probability
    epochs: Count
    clip: Positive
    targets: Literal["gae", "vtrace"]
    clip_rho: Positive
    clip_c: Positive
    baseline_cost: NonNegative
    clip_value: bool
    entropy_cost: NonNegative
    normalize_advantages: bool
    grad_norm_clipping: Positive
    optimizer: OptimizerConfig


class Metrics(NamedTuple):
    """The scalars that `loss` reports beside the loss, in this order."""

    policy_loss: float
    baseline_loss: float
    entropy: float  # nats
    kl: float  # nats, of the policy from the one that acted
    clip_fraction: float  # share of samples outside the clip range, 0 to 1


PolicyLoss = Callable[[Tensor, Tensor, AlgorithmConfig], Tensor]
LossFunction = Callable[[Minibatch], tuple[Tensor, Tensor]]
"""Of a minibatch, the loss and `Metrics` as one tensor `[5]`."""


def ppo(log_ratio: Tensor, advantage: Tensor, config: AlgorithmConfig) -> Tensor:
    """Return PPO's clipped surrogate (Schulman et al. 2017, arXiv 1707.06347), a scalar.

    Args:
        log_ratio: Log probability of each action now minus when it was chosen `[T, B]`.
        advantage: The advantage of each action `[T, B]`.
        config: The algorithm's settings.
    """
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - config.clip, 1 + config.clip)
    return -torch.min(ratio * advantage, clipped * advantage).mean()


def vtrace(log_ratio: Tensor, advantage: Tensor, config: AlgorithmConfig) -> Tensor:
    """Return the policy gradient within a trust region; V-trace's advantages hold the importance weights.

    A sample is left out once its action has become more (or less) probable by the factor 1 +- `clip` in the
    direction that its advantage asks for, so that a rollout can be used for several epochs, as in LASER
    (Schmitt et al. 2020, arXiv 1909.11583). Arguments and result are those of `ppo`.
    """
    ratio = log_ratio.detach().exp()
    trusted = torch.where(advantage > 0, ratio < 1 + config.clip, ratio > 1 - config.clip)
    return -(log_ratio * advantage * trusted).mean()


POLICY_LOSSES: dict[str, PolicyLoss] = {"ppo": ppo, "vtrace": vtrace}


@torch.no_grad()
def compute_targets(policy: Policy, rollout: Rollout, config: AlgorithmConfig) -> Minibatch:
    """Return a whole rollout with values, targets and advantages under the model as it is now."""
    values, hidden = policy.values(rollout.obs, rollout.is_first, rollout.hidden)
    final_values = torch.zeros_like(rollout.reward)
    truncated = rollout.truncated
    if truncated.any():
        hidden_then = tuple(part[:-1][truncated] for part in hidden)
        final_values[truncated] = policy.value(rollout.final_obs[truncated], hidden_then)
    log_rhos = None
    if config.targets == "vtrace":
        means, _ = policy.unroll(rollout.obs[:-1], rollout.is_first[:-1], rollout.hidden)
        log_rhos = log_prob(means, policy.log_std, rollout.action) - rollout.log_prob
    target, advantage = vtrace_returns(
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
        is_first=rollout.is_first[:-1],
        action=rollout.action,
        log_prob=rollout.log_prob,
        value=values[:-1],
        target=target,
        advantage=advantage,
        hidden=rollout.hidden,
    )


def loss(policy: Policy, batch: Minibatch, config: AlgorithmConfig) -> tuple[Tensor, Tensor]:
    """Return the loss of one minibatch, and its `Metrics` as one tensor `[5]` without gradient."""
    means, values = policy.unroll(batch.obs, batch.is_first, batch.hidden)
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
        kl = (ratio - 1 - log_ratio).mean()  # Schulman's estimator "k3" of KL(old, new): never negative
        outside = ((ratio - 1).abs() > config.clip).to(ratio.dtype).mean()
        metrics = torch.stack([policy_loss, baseline_loss, bonus, kl, outside])
    return total, metrics


def has_fast_bf16(device_type: str) -> bool:
    """Return whether matrices multiply faster in bf16: on processors with AMX, and on most GPUs."""
    if device_type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    if not hasattr(torch.cpu, "get_capabilities"):  # missing in the older torch versions that we allow
        return False
    return bool(torch.cpu.get_capabilities().get("amx_bf16"))


def make_loss(
    policy: Policy,
    config: AlgorithmConfig,
    device: str = "cpu",
    precision: str = "auto",
    compiled: bool = False,
) -> LossFunction:
    """Return `loss` as this machine runs it.

    Where compiling fails (there is no C++ compiler, for example), the first call warns and goes on without.

    Args:
        policy: The policy.
        config: The algorithm's settings.
        device: Where the model lives.
        precision: auto, float32, tf32 or bf16. `tf32` changes all matrix products on the process's GPUs.
        compiled: Whether to compile with `torch.compile`.
    """
    names = [f.name for f in fields(Minibatch) if f.name != "hidden"]
    device_type = torch.device(device).type
    is_bf16 = precision == "bf16" or (precision == "auto" and has_fast_bf16(device_type))

    if device_type == "cuda":
        torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")

    def evaluate(hidden: tuple[Tensor, ...], *tensors: Tensor) -> tuple[Tensor, Tensor]:
        batch = Minibatch(**dict(zip(names, tensors, strict=True)), hidden=hidden)
        with torch.autocast(device_type, torch.bfloat16, enabled=is_bf16):
            return loss(policy, batch, config)

    chosen = torch.compile(evaluate) if compiled else evaluate

    def call(batch: Minibatch) -> tuple[Tensor, Tensor]:
        nonlocal chosen
        tensors = [getattr(batch, name) for name in names]
        try:
            return chosen(batch.hidden, *tensors)
        except Exception as error:
            if chosen is evaluate:
                raise
            chosen = evaluate
            log.warning("compile=true: %s; going on without compiling", str(error).strip().splitlines()[0])
            return evaluate(batch.hidden, *tensors)

    return call
