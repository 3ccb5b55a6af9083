"""What a task is made of, as frozen dataclasses; the presets in ``conf/env`` fill them key by key.

``EnvConfig.from_dict`` turns plain nested dictionaries (as read from YAML) into a checked ``EnvConfig``.
Every mistake raises a ``ValueError`` of one line that names the key, its value and what is allowed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml

from envs.go2.robot.constants import BASE_MASS
from envs.schema import Bounds, NonNegative, Positive, Probability, Range, error, parse

PRESETS = Path(__file__).resolve().parent.parent / "conf" / "env"


@dataclass(frozen=True)
class PhysicsConfig:
    variant: Literal["fast", "unitree", "menagerie"]  # which simulation of the Go2, see envs/go2/model.py
    timestep: Annotated[float, Bounds(above=0.0, high=0.02)]  # s per physics step
    decimation: Annotated[int, Bounds(low=1, high=100)]  # physics steps per policy step


@dataclass(frozen=True)
class ControlConfig:
    action_scale: Positive  # rad of joint target per unit of action
    kp: Positive  # N m/rad
    kd: NonNegative  # N m s/rad
    clip_actions: Positive  # actions are clipped to +- this


@dataclass(frozen=True)
class EpisodeConfig:
    length: Positive  # s until the time-out
    stagger: bool  # whether first episodes start at random ages, so that time-outs do not fall together


@dataclass(frozen=True)
class ObservationTerm:
    scale: float | tuple[float, ...]  # factor on the term, after the noise
    noise: NonNegative  # half-width of uniform noise, in the term's own unit


@dataclass(frozen=True)
class ObservationConfig:
    noise: bool  # whether the noise of the terms is added
    clip: Positive  # observations are clipped to +- this
    terms: Mapping[str, ObservationTerm]  # in order; names as in envs/go2/observations.py


@dataclass(frozen=True)
class CommandConfig:
    vx: Range  # m/s, uniform
    vy: Range  # m/s, uniform
    yaw_rate: Range  # rad/s, uniform; with heading: the clip of the yaw rate
    on_probability: tuple[Probability, Probability, Probability]  # that vx, vy, yaw_rate is not 0
    stand_probability: Probability  # that the whole command is 0, besides the above
    min_speed: NonNegative  # m/s, an xy command with a norm up to this becomes 0
    resample: Literal["exponential", "periodic"]  # how the time between two commands is drawn
    resample_time: Positive  # s, its mean (exponential) or its value (periodic)
    heading: bool  # whether the yaw rate steers towards a drawn heading
    heading_range: Range  # rad, uniform
    heading_gain: NonNegative  # 1/s, yaw rate per heading error


@dataclass(frozen=True)
class GaitConfig:
    frequency: Positive  # Hz of the trot's clock
    random_phase: bool  # whether the clock starts at a random phase, else at 0


@dataclass(frozen=True)
class ResetConfig:
    joint_scale: Range  # q_default is multiplied by a uniform number per joint
    joint_noise: NonNegative  # rad, half-width of uniform noise on the joints
    height: Positive | None  # m of the base; null puts the feet on the ground
    base_velocity: NonNegative  # m/s and rad/s, half-width of the uniform base velocity


@dataclass(frozen=True)
class TerminationConfig:
    min_upright: Annotated[float, Bounds(low=-1.0, high=1.0)] | None  # up axis times the world's; null is off
    max_roll: Positive | None  # rad; null is off
    max_pitch: Positive | None  # rad; null is off
    base_contact: NonNegative | None  # N on the base; null is off


@dataclass(frozen=True)
class RewardConfig:
    times_dt: bool  # whether the sum is multiplied by the control step
    only_positive: bool  # whether the sum is clipped at 0 from below
    tracking_sigma: Positive  # (m/s)^2 and (rad/s)^2, squared error that costs a factor e
    soft_limit: Annotated[
        float, Bounds(above=0.0, high=1.0)
    ]  # share of the joint range that is free of charge
    air_time: NonNegative  # s, a swing longer than this is rewarded
    swing_height: tuple[NonNegative, NonNegative]  # m, wanted at the top of the swing; the greatest free one
    weights: Mapping[str, float]  # of the terms in envs/go2/rewards.py


@dataclass(frozen=True)
class RandomizationConfig:
    friction: tuple[Positive, Positive] | None  # sliding friction of the robot, uniform; null is off
    base_mass: Range | None  # kg added to the base, uniform; null is off
    base_com: NonNegative | None  # m, half-width per axis of the base's centre of mass; null is off
    gain_scale: tuple[Positive, Positive] | None  # factor on kp and, drawn apart, on kd; null is off
    joint_damping: tuple[NonNegative, NonNegative] | None  # N m s/rad of all joints, uniform; null is off
    push_interval: Positive | None  # s of episode time between pushes; null is off
    push_velocity: NonNegative  # m/s, a push sets the world xy velocity to U(+-this)
    action_delay: tuple[NonNegative, NonNegative] | None  # s that a target arrives late, uniform; null is off


@dataclass(frozen=True)
class EnvConfig:
    """A whole task; every section is described by its own comments."""

    name: str
    physics: PhysicsConfig
    control: ControlConfig
    episode: EpisodeConfig
    observations: ObservationConfig
    commands: CommandConfig
    gait: GaitConfig
    resets: ResetConfig
    terminations: TerminationConfig
    rewards: RewardConfig
    randomization: RandomizationConfig
    backend: Literal["mjbatch", "warp"] = "mjbatch"  # what steps the robots: a CPU's cores, or MuJoCo Warp
    device: str | None = None  # with warp: where the robots live, cpu or cuda:N; null is cpu

    @property
    def control_dt(self) -> float:
        """Seconds per policy step."""
        return self.physics.timestep * self.physics.decimation

    @staticmethod
    def preset(name: str) -> "EnvConfig":
        """The task of ``conf/env/NAME.yaml``.

        Raises:
            ValueError: If there is none; one line.
        """
        names = sorted(path.stem for path in PRESETS.glob("*.yaml"))
        if name not in names:
            raise error("env", name, "one of " + ", ".join(names))
        return EnvConfig.from_dict(yaml.safe_load((PRESETS / f"{name}.yaml").read_text()))

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> "EnvConfig":
        """Builds the configuration from nested plain dictionaries and lists.

        Raises:
            ValueError: On an unknown or missing key, or a wrong type or value; one line.
        """
        config: EnvConfig = parse(EnvConfig, values, "env")
        delay, mass = config.randomization.action_delay, config.randomization.base_mass
        if delay is not None and delay[1] > config.control_dt:
            allowed = f"at most the control step, {config.control_dt:g} s"
            raise error("env.randomization.action_delay", list(delay), allowed)
        if mass is not None and mass[0] <= -BASE_MASS:
            raise error("env.randomization.base_mass", list(mass), f"more than -{BASE_MASS} kg")
        return config
