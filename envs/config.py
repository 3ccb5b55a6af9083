"""The configuration of a task as frozen dataclasses; the presets in ``conf/env`` have a value for every key.

``EnvConfig.from_dict`` turns plain nested dictionaries (as read from YAML) into a checked ``EnvConfig``.
Every mistake raises a ``ValueError`` of one line that names the key, its value and the allowed values.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml

from envs.schema import Bounds, NonNegative, Positive, Probability, Range, error, parse

PRESETS = Path(__file__).resolve().parent.parent / "conf" / "env"
BASE_MASS = 6.921  # kg, of the Go2's base


@dataclass(frozen=True)
class PhysicsConfig:
    variant: Literal["fast", "unitree", "menagerie"]  # see envs/go2/robot/physics.py
    timestep: Annotated[float, Bounds(above=0.0, high=0.02)]  # s, of a physics step
    decimation: Annotated[int, Bounds(low=1, high=100)]  # physics steps per policy step


@dataclass(frozen=True)
class ControlConfig:
    action_scale: Positive  # rad of joint target per unit of action
    kp: Positive  # N m/rad
    kd: NonNegative  # N m s/rad
    clip_actions: Positive  # bound on actions: clipped to +- this


@dataclass(frozen=True)
class EpisodeConfig:
    length: Positive  # s until the time-out
    stagger: bool  # first episodes start at random ages, so that time-outs are spread


@dataclass(frozen=True)
class ObservationTerm:
    scale: float | tuple[float, ...]  # factor on the term, applied after the noise
    noise: NonNegative  # half-width of the uniform noise, in the unit of the term


@dataclass(frozen=True)
class ObservationConfig:
    noise: bool  # add the noise of the terms
    clip: Positive  # bound on observations: clipped to +- this
    terms: Mapping[str, ObservationTerm]  # in order; names as in envs/go2/mdp/observations.py


@dataclass(frozen=True)
class CommandConfig:
    vx: Range  # m/s, uniform
    vy: Range  # m/s, uniform
    yaw_rate: Range  # rad/s, uniform; with heading: the range to which steering is clipped
    on_probability: tuple[Probability, Probability, Probability]  # that vx, vy and yaw_rate are not 0
    stand_probability: Probability  # that the whole command is 0, in addition to the above
    min_speed: NonNegative  # m/s, xy commands with a norm up to this become 0
    resample: Literal["exponential", "periodic"]  # distribution of the time between two commands
    resample_time: Positive  # s, its mean (exponential) or value (periodic)
    heading: bool  # the yaw rate steers towards a drawn heading
    heading_range: Range  # rad, uniform
    heading_gain: NonNegative  # 1/s, yaw rate per heading error


@dataclass(frozen=True)
class GaitConfig:
    frequency: Positive  # Hz, of the trot
    random_phase: bool  # the gait clock starts at a random phase instead of 0


@dataclass(frozen=True)
class ResetConfig:
    joint_scale: Range  # factor on q_default, uniform per joint
    joint_noise: NonNegative  # rad, half-width of uniform noise on the joints
    height: Positive | None  # m, of the base; null puts the feet on the ground
    base_velocity: NonNegative  # m/s and rad/s, half-width of the uniform base velocity


@dataclass(frozen=True)
class TerminationConfig:
    min_upright: (
        Annotated[float, Bounds(low=-1.0, high=1.0)] | None
    )  # base's up axis times the world's; null: off
    max_roll: Positive | None  # rad; null: off
    max_pitch: Positive | None  # rad; null: off
    base_contact: NonNegative | None  # N on the base; null: off


@dataclass(frozen=True)
class RewardConfig:
    times_dt: bool  # multiply the sum by the control step
    only_positive: bool  # clip the sum at 0 from below
    tracking_sigma: Positive  # (m/s)^2 and (rad/s)^2, squared error that lowers the reward by a factor e
    soft_limit: Annotated[float, Bounds(above=0.0, high=1.0)]  # share of the joint range without penalty
    air_time: NonNegative  # s, swings longer than this are rewarded
    swing_height: tuple[
        NonNegative, NonNegative
    ]  # m, foot clearance: desired at the top of the swing, largest without penalty
    weights: Mapping[str, float]  # of the terms in envs/go2/mdp/rewards.py


@dataclass(frozen=True)
class RandomizationConfig:
    friction: tuple[Positive, Positive] | None  # sliding friction of the robot, uniform; null: off
    base_mass: Range | None  # kg added to the base, uniform; null: off
    base_com: (
        NonNegative | None
    )  # m, half-width of the shift of the base's centre of mass per axis; null: off
    gain_scale: tuple[Positive, Positive] | None  # factors on kp and kd, drawn separately; null: off
    joint_damping: tuple[NonNegative, NonNegative] | None  # N m s/rad, of all joints, uniform; null: off
    push_interval: Positive | None  # s, episode time between pushes; null: off
    push_velocity: NonNegative  # m/s, a push sets the world xy velocity to U(+-this)
    action_delay: tuple[NonNegative, NonNegative] | None  # s, delay of joint targets, uniform; null: off


@dataclass(frozen=True)
class EnvConfig:
    """A whole task; the comments of every section describe its keys."""

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
    backend: Literal["mjbatch", "warp"] = "mjbatch"  # simulator: MuJoCo on CPU cores, or MuJoCo Warp on a GPU
    device: str | None = None  # of the robots with warp: cpu or cuda:N; null: cpu

    @property
    def control_dt(self) -> float:
        """Seconds per policy step."""
        return self.physics.timestep * self.physics.decimation

    @staticmethod
    def preset(name: str) -> "EnvConfig":
        """Load the task of ``conf/env/NAME.yaml``.

        Raises:
            ValueError: If there is no such preset; one line.
        """
        names = sorted(path.stem for path in PRESETS.glob("*.yaml"))
        if name not in names:
            raise error("env", name, "one of " + ", ".join(names))
        return EnvConfig.from_dict(yaml.safe_load((PRESETS / f"{name}.yaml").read_text()))

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> "EnvConfig":
        """Build the configuration from nested plain dictionaries and lists.

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
