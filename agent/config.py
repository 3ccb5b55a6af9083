"""The configuration of a peer: frozen dataclasses, validated once at start.

Hydra composes `conf/` and the command line; `from_omegaconf` turns the result into a `Config` or raises
`ConfigError` with one line that names the key, its value and what is allowed. Every key is explained next to
its default in `conf/`. The sections `env`, `algorithm` and `model` are declared in `envs.config`,
`agent.algorithms` and `agent.models`.
"""

from __future__ import annotations

import os
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from omegaconf import DictConfig, OmegaConf

import moolib
from agent.algorithms.objective import POLICY_LOSSES, AlgorithmConfig
from agent.errors import ConfigError as ConfigError
from agent.models.policy import ModelConfig
from envs import EnvConfig
from envs.machine import cores
from envs.schema import Bounds, NonNegative, Positive, parse
from envs.schema import Count as Count
from moolib.limits import MAX_BATCH_SIZE, MAX_GROUP_NAME
from moolib.transport.address import AddressError
from moolib.transport.address import parse as parse_address

KEY_FILE_VARIABLE = "HERD_KEY_FILE"  # the default of key_file
MAX_FILE_NAME = 255  # bytes, on common file systems
NAME_KEYS = ("project", "group", "entity", "local_name", "connect", "advertise")
PATH_KEYS = ("savedir", "localdir", "key_file")
MAX_LEARNER_THREADS = 4  # a small model's minibatch keeps no more threads busy

CountOrAll = Annotated[int, Bounds(low=0)]


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
    """All settings of one peer; `conf/config.yaml` explains each key."""

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
    tensorboard: bool

    @property
    def sequences(self) -> int:
        """Sequences of one rollout of this peer: one per robot."""
        return self.actor_batch_size * self.num_actor_batches

    @property
    def train_id(self) -> str:
        """The name under which the broker keeps this experiment's group."""
        return f"{self.project}/{self.group}"

    @property
    def physics_threads_per_batch(self) -> int:
        """C++ threads of each actor batch: as configured, or so that together they use every core."""
        return self.physics_threads or max(1, cores() // self.num_actor_batches)

    @property
    def gradient_threads(self) -> int:
        """Torch threads for gradients: as configured, or half of the cores, since physics needs the rest."""
        return self.learner_threads or max(1, min(MAX_LEARNER_THREADS, cores() // 2))


def from_omegaconf(composed: DictConfig) -> Config:
    """Validate what Hydra composed, and fill in the names that depend on the machine and the time.

    Raises:
        ConfigError: A key, type or value is wrong.
    """
    values = OmegaConf.to_container(composed, resolve=True)
    assert isinstance(values, dict)
    _fill_in_names(values)
    try:
        EnvConfig.from_dict(values["env"])
        config: Config = parse(Config, values, "")
    except ValueError as error:
        raise ConfigError(str(error)) from None
    _check_combinations(config)
    return config


def _check_combinations(config: Config) -> None:
    """Raise ConfigError for values that are valid on their own but not together."""

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
        require(name not in (".", ".."), key, name, "a name of its own: it names a directory, too")
        require(
            "\0" not in name and len(os.fsencode(name)) <= MAX_FILE_NAME,
            key,
            name,
            f"a file name: at most {MAX_FILE_NAME} bytes",
        )
    size = len(config.train_id)
    require(
        size <= MAX_GROUP_NAME,
        "group",
        config.group,
        f"shorter: PROJECT/GROUP has {size} characters, at most {MAX_GROUP_NAME} are allowed",
    )
    size = config.virtual_batch_size
    require(size <= MAX_BATCH_SIZE, "virtual_batch_size", size, f"at most {MAX_BATCH_SIZE}")
    if config.connect is not None:
        try:
            parse_address(config.connect)
        except AddressError as error:
            raise ConfigError(f"connect={config.connect}: {error.reason}") from None


def _fill_in_names(values: dict[Any, Any]) -> None:
    """Fill in the values that depend on other keys, the machine and the time.

    Alone, each start is a separate run named by the current time; with a broker, peers share `default`.
    Robots of MuJoCo Warp live on the device that learns, unless `env.device` says otherwise.
    """
    for key in (*NAME_KEYS, *PATH_KEYS):  # a file of settings may give a number: savedir: 2026
        values[key] = None if values[key] is None else str(values[key])
    for key in PATH_KEYS:
        values[key] = values[key] and os.path.expanduser(values[key])
    values["key_file"] = values["key_file"] or os.environ.get(KEY_FILE_VARIABLE) or None
    host, alone = socket.gethostname(), values["connect"] is None
    group = time.strftime("%Y%m%d-%H%M%S") if alone else "default"
    name = host if alone else f"{host}-{os.getpid()}-{moolib.create_uid()[:4]}"
    for key, default in (("group", group), ("local_name", name)):
        values[key] = default if values[key] is None else values[key]
    savedir = Path(values["savedir"] or Path("outputs") / values["project"] / values["group"]).absolute()
    localdir = Path(values["localdir"] or savedir / "peers" / values["local_name"]).absolute()
    if isinstance(values["env"], dict) and values["env"].get("backend") == "warp":
        values["env"]["device"] = values["env"].get("device") or values["device"]
    values["savedir"], values["localdir"] = str(savedir), str(localdir)


def shared_settings(config: Config) -> dict[str, Any]:
    """Return the settings that change the model, on which all peers of a group must agree."""
    return {
        "algorithm": asdict(config.algorithm),
        "model": asdict(config.model),
        "virtual_batch_size": config.virtual_batch_size,
        "unroll_length": config.unroll_length,
        "env.name": config.env.name,
    }


def check_shared_settings(config: Config, theirs: dict[str, Any], where: str) -> None:
    """Raise ConfigError unless our shared settings are those of a checkpoint or group."""
    if different := differences(shared_settings(config), theirs):
        raise ConfigError(
            f"{where} has other settings than ours: {'; '.join(different)}. Give these keys the values "
            "there, or start another run with another group"
        )


def differences(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """Return `key=ours (there: theirs)` for each leaf that differs."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        keys = sorted(ours.keys() | theirs.keys())
        return [
            line
            for key in keys
            for line in differences(ours.get(key), theirs.get(key), f"{path}.{key}" if path else key)
        ]
    return [] if ours == theirs else [f"{path}={ours} (there: {theirs})"]
