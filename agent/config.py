"""The configuration of a peer: frozen dataclasses, checked once at start.

Hydra composes `conf/` and the command line; `from_omegaconf` turns the result into a `Config` or raises
`ConfigError` with one line that names the key, its value and what is allowed. Every key is explained where
its default stands, in `conf/`.
"""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

import moolib
from envs import EnvConfig


class ConfigError(ValueError):
    """A value that the user gave cannot be used; the message is one line for the user."""


def require(condition: bool, key: str, value: object, allowed: str) -> None:
    """Raises ConfigError `key=value: must be allowed` unless the condition holds."""
    if not condition:
        raise ConfigError(f"{key}={value}: must be {allowed}")


def require_positive(section: str, config: object, *keys: str) -> None:
    for key in keys:
        value = getattr(config, key)
        require(value > 0, section + key, value, "greater than 0")


def require_not_negative(section: str, config: object, *keys: str) -> None:
    for key in keys:
        value = getattr(config, key)
        require(value >= 0, section + key, value, "0 or greater")


@dataclass(frozen=True)
class OptimizerConfig:
    learning_rate: float
    final_learning_rate: float
    schedule: str
    schedule_updates: int
    desired_kl: float
    beta_1: float
    beta_2: float
    epsilon: float

    def __post_init__(self) -> None:
        section = "algorithm.optimizer."
        require_positive(
            section, self, "learning_rate", "final_learning_rate", "schedule_updates", "desired_kl", "epsilon"
        )
        require(
            self.schedule in ("constant", "linear", "adaptive"),
            section + "schedule",
            self.schedule,
            "constant, linear or adaptive",
        )
        for key in ("beta_1", "beta_2"):
            require(0 <= getattr(self, key) < 1, section + key, getattr(self, key), "in [0, 1)")


@dataclass(frozen=True)
class AlgorithmConfig:
    name: str
    discounting: float
    trace_decay: float
    epochs: int
    clip: float
    clip_rho: float
    clip_c: float
    targets: str
    baseline_cost: float
    clip_value: bool
    entropy_cost: float
    normalize_advantages: bool
    grad_norm_clipping: float
    optimizer: OptimizerConfig

    def __post_init__(self) -> None:
        section = "algorithm."
        require(self.name in ("ppo", "vtrace"), section + "name", self.name, "ppo or vtrace")
        require(self.targets in ("gae", "vtrace"), section + "targets", self.targets, "gae or vtrace")
        require_positive(section, self, "epochs", "clip", "clip_rho", "clip_c", "grad_norm_clipping")
        require_not_negative(section, self, "baseline_cost", "entropy_cost")
        for key in ("discounting", "trace_decay"):
            require(0 <= getattr(self, key) <= 1, section + key, getattr(self, key), "in [0, 1]")
        if self.name == "vtrace":
            require(self.epochs == 1, section + "epochs", self.epochs, "1 with algorithm=vtrace")


@dataclass(frozen=True)
class ModelConfig:
    name: str
    hidden_sizes: list[int]
    initial_std: float
    mirror: bool
    normalize_observations: bool
    normalizer_interval: int

    def __post_init__(self) -> None:
        require(self.name in ("mlp", "lstm"), "model.name", self.name, "mlp or lstm")
        sizes = self.hidden_sizes
        require(bool(sizes) and min(sizes) > 0, "model.hidden_sizes", sizes, "a list of positive widths")
        require_positive("model.", self, "initial_std", "normalizer_interval")
        require(
            not (self.mirror and self.name == "lstm"), "model.mirror", self.mirror, "false with model=lstm"
        )


@dataclass(frozen=True)
class ScenarioConfig:
    name: str
    robots: int | None = None
    steps_per_update: int | None = None
    updates: int | None = None
    training_time: str | None = None
    policy_rate: str | None = None


@dataclass(frozen=True)
class Config:
    """Everything that one peer needs to know; see `conf/config.yaml` for what each key means."""

    env: dict[str, Any]
    algorithm: AlgorithmConfig
    model: ModelConfig
    scenario: ScenarioConfig

    connect: str | None
    connect_timeout: float
    key_file: str | None
    project: str
    group: str | None
    entity: str | None
    local_name: str | None
    savedir: str | None
    localdir: str | None
    group_timeout: float

    device: str
    seed: int
    physics_threads: int
    learner_threads: int
    precision: str
    compile: bool

    actor_batch_size: int
    num_actor_batches: int
    unroll_length: int
    batch_size: int
    virtual_batch_size: int
    total_steps: float
    warmup: float

    log_interval: float
    checkpoint_interval: float
    checkpoint_history_interval: float
    wandb: bool

    def __post_init__(self) -> None:
        require_positive(
            "", self, "actor_batch_size", "num_actor_batches", "unroll_length", "batch_size",
            "virtual_batch_size", "total_steps", "log_interval", "checkpoint_interval",
            "checkpoint_history_interval", "group_timeout", "connect_timeout",
        )  # fmt: skip
        require_not_negative("", self, "seed", "physics_threads", "learner_threads", "warmup")
        require(self.precision in ("float32", "bf16"), "precision", self.precision, "float32 or bf16")
        for key in ("project", "group", "local_name"):
            value = getattr(self, key)
            require(value is None or (value and "/" not in value), key, value, "a name without '/'")
        sequences = self.actor_batch_size * self.num_actor_batches
        require(
            sequences % self.batch_size == 0,
            "batch_size",
            self.batch_size,
            f"a divisor of actor_batch_size x num_actor_batches = {sequences}",
        )

    @property
    def env_config(self) -> EnvConfig:
        return EnvConfig.from_dict(self.env)

    @property
    def sequences(self) -> int:
        """Sequences of one rollout of this peer: one for each of its robots."""
        return self.actor_batch_size * self.num_actor_batches

    @property
    def train_id(self) -> str:
        """The name under which the broker keeps this experiment's group."""
        return f"{self.project}/{self.group}"


def from_omegaconf(composed: DictConfig) -> Config:
    """Checks what Hydra composed and fills in the names that depend on the machine and the time.

    Raises:
        ConfigError: a key, type or value is wrong (one line).
    """
    try:
        merged = OmegaConf.merge(OmegaConf.structured(Config), composed)
        config = OmegaConf.to_object(merged)
    except OmegaConfBaseException as error:
        key = f"{error.full_key}: " if getattr(error, "full_key", None) else ""
        raise ConfigError(key + str(error).splitlines()[0]) from None
    assert isinstance(config, Config)
    config = _with_names(config)
    try:
        config.env_config  # noqa: B018 - building it is the check
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return config


def _with_names(config: Config) -> Config:
    """Alone, each start is a run of its own under the current time; with a broker, peers share `default`."""
    host, alone = socket.gethostname(), config.connect is None
    group = config.group or (time.strftime("%Y%m%d-%H%M%S") if alone else "default")
    name = config.local_name or (host if alone else f"{host}-{os.getpid()}-{moolib.create_uid()[:4]}")
    savedir = Path(config.savedir or Path("outputs") / config.project / group).absolute()
    localdir = Path(config.localdir or savedir / "peers" / name).absolute()
    return replace(config, group=group, local_name=name, savedir=str(savedir), localdir=str(localdir))
