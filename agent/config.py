"""The configuration of a peer: frozen dataclasses, checked once at start.

Hydra composes `conf/` and the command line; `from_omegaconf` turns the result into a `Config` or raises
`ConfigError` with one line that names the key, its value and what is allowed. Every key is explained where
its default stands, in `conf/`.
"""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from omegaconf import DictConfig, OmegaConf

import moolib
from agent.algorithms.policy_losses import POLICY_LOSSES
from agent.errors import ConfigError
from envs import EnvConfig
from envs.schema import Bounds, NonNegative, Positive, Probability, parse

KEY_FILE_VARIABLE = "HERD_KEY_FILE"  # the default of key_file

Count = Annotated[int, Bounds(low=1)]
CountOrAll = Annotated[int, Bounds(low=0)]
Momentum = Annotated[float, Bounds(low=0.0, high=0.99999)]


@dataclass(frozen=True)
class OptimizerConfig:
    learning_rate: Positive
    schedule: Literal["constant", "linear", "adaptive"]
    final_learning_rate: Positive
    schedule_updates: Count
    desired_kl: Positive
    beta_1: Momentum
    beta_2: Momentum
    epsilon: Positive


@dataclass(frozen=True)
class AlgorithmConfig:
    name: str  # of agent.algorithms.policy_losses
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


@dataclass(frozen=True)
class ModelConfig:
    name: Literal["mlp", "lstm"]
    hidden_sizes: tuple[Count, ...]
    activation: Literal["relu", "elu"]
    initial_std: Positive
    mirror: bool
    normalize_observations: bool
    normalizer_interval: Count


@dataclass(frozen=True)
class ScenarioConfig:
    name: str
    robots: Count | None
    steps_per_update: Count | None
    updates: Count | None
    training_time: str | None
    policy_rate: str | None


@dataclass(frozen=True)
class Config:
    """Everything that one peer needs to know; see `conf/config.yaml` for what each key means."""

    env: EnvConfig
    algorithm: AlgorithmConfig
    model: ModelConfig
    scenario: ScenarioConfig

    connect: str | None
    connect_timeout: Positive
    advertise: str | None
    key_file: str | None
    project: str
    group: str
    entity: str | None
    local_name: str
    savedir: str
    localdir: str
    group_timeout: Positive

    device: str
    seed: CountOrAll
    physics_threads: CountOrAll
    learner_threads: CountOrAll
    precision: Literal["auto", "float32", "tf32", "bf16"]
    compile: bool

    actor_batch_size: Count
    num_actor_batches: Count
    overlap: bool
    unroll_length: Count
    batch_size: Count
    virtual_batch_size: Count
    total_steps: Positive
    warmup: NonNegative

    log_interval: Positive
    checkpoint_interval: Positive
    checkpoint_history_interval: Positive
    wandb: bool

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
    values = OmegaConf.to_container(composed, resolve=True)
    assert isinstance(values, dict)
    _fill_in_names(values)
    try:
        EnvConfig.from_dict(values["env"])
        config = parse(Config, values, "")
    except ValueError as error:
        raise ConfigError(str(error)) from None
    _check_combinations(config)
    return config


def _check_combinations(config: Config) -> None:
    """Raises ConfigError for values that are each allowed but do not go together."""

    def require(condition: bool, key: str, value: object, allowed: str) -> None:
        if not condition:
            raise ConfigError(f"{key}={value}: must be {allowed}")

    size, sequences, robots_at = config.batch_size, config.sequences, config.env.device
    on_cpu = config.env.backend == "mjbatch"
    require(not (on_cpu and robots_at), "env.device", robots_at, "null with env.backend=mjbatch, the CPU's")
    tf32 = config.precision == "tf32"
    require(not (tf32 and config.device == "cpu"), "precision", "tf32", "auto, float32 or bf16 on a CPU")
    require(
        sequences % size == 0,
        "batch_size",
        size,
        f"a divisor of actor_batch_size x num_actor_batches = {sequences}",
    )
    name, names = config.algorithm.name, ", ".join(POLICY_LOSSES)
    require(name in POLICY_LOSSES, "algorithm.name", name, f"one of {names}")
    require(len(config.model.hidden_sizes) > 0, "model.hidden_sizes", [], "at least one width")
    if config.model.mirror:
        sizes = list(config.model.hidden_sizes)
        even = all(width % 2 == 0 for width in sizes)
        require(even, "model.hidden_sizes", sizes, "even with model.mirror: hidden units come in pairs")
    if config.model.name == "lstm":
        require(not config.model.mirror, "model.mirror", True, "false with model=lstm")
    for key in ("project", "group", "local_name"):
        name = getattr(config, key)
        require(name != "" and "/" not in name, key, name, "a name without '/'")


def _fill_in_names(values: dict[Any, Any]) -> None:
    """Fills in what depends on other keys, the machine and the time.

    Alone, each start is a run of its own under the current time; with a broker, peers share `default`. Robots
    of MuJoCo Warp live where the model learns, if nothing else is said.
    """
    values["key_file"] = values["key_file"] or os.environ.get(KEY_FILE_VARIABLE) or None
    host, alone = socket.gethostname(), values["connect"] is None
    group = time.strftime("%Y%m%d-%H%M%S") if alone else "default"
    name = host if alone else f"{host}-{os.getpid()}-{moolib.create_uid()[:4]}"
    for key, default in (("group", group), ("local_name", name)):
        values[key] = default if values[key] is None else str(values[key])
    savedir = Path(values["savedir"] or Path("outputs") / str(values["project"]) / values["group"]).absolute()
    localdir = Path(values["localdir"] or savedir / "peers" / values["local_name"]).absolute()
    if isinstance(values["env"], dict) and values["env"].get("backend") == "warp":
        values["env"]["device"] = values["env"].get("device") or values["device"]
    values["savedir"], values["localdir"] = str(savedir), str(localdir)
