"""Untrained policies and their checkpoints, for tests of the tools that use trained ones."""

from dataclasses import asdict
from pathlib import Path

import torch

from agent.cli.overrides import compose
from agent.config import Config, from_omegaconf
from agent.models.policy import LstmPolicy, MlpPolicy, Policy, make_policy
from agent.policies.loading import LoadedPolicy
from agent.storage import checkpoint
from agent.training.learner import Progress
from envs.go2.mdp.observations import Observer
from envs.go2.robot.symmetry import mirror


def untrained(spread: float, *overrides: str) -> tuple[Policy, Config]:
    """Return a policy whose mean actions have about the size `spread`, and its configuration.

    Its normaliser has moments of its own, so that leaving it out is noticed.
    """
    config = from_omegaconf(compose(*overrides))
    observer = Observer(config.env.observations)
    torch.manual_seed(3)
    policy = make_policy(config.model, observer.dim, 12, mirror(observer.terms)).requires_grad_(False)
    assert isinstance(policy, MlpPolicy | LstmPolicy)
    policy.get_parameter(f"actor.{len(policy.actor) - 1}.weight").mul_(100 * spread)  # initialised at 0.01
    policy.normalizer.add_moments(policy.normalizer.moments(0.3 + 0.5 * torch.randn(500, observer.dim)))
    policy.normalizer.apply_moments()
    return policy.eval(), config


def trained(spread: float, *overrides: str) -> LoadedPolicy:
    """Return an untrained policy as if it had been loaded from a checkpoint."""
    policy, config = untrained(spread, *overrides)
    return LoadedPolicy(policy, config.env, Path("memory"), 0, 0.0)


def save(path: Path, spread: float, *overrides: str) -> Path:
    """Write a checkpoint of an untrained policy, with all that is read of a training run's; return `path`."""
    policy, config = untrained(spread, *overrides)
    progress = asdict(Progress(step=1_000_000, seconds=60.0))
    values = {"policy": policy.state_dict(), "config": asdict(config), "learner": {"progress": progress}}
    checkpoint.save(path, values)
    return path
