"""Shared by the sections of the lab: the simulations they measure, clocks, and states that robots visit."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import mujoco
import numpy as np

from envs.config import EnvConfig, PhysicsConfig
from envs.go2.mjbatch.batch import Go2Batch
from envs.go2.robot import constants
from envs.go2.robot.physics import PHYSICS

ROBOTS, STEPS = 512, 25  # robots and policy steps whose states are collected
TRAINING_TARGETS = 0.5  # rad, standard deviation of random joint targets under which robots fall
TRAINING_WARMUP = 1.0  # s of random targets, after which falls and resets have mixed the robots' ages
SETTLE = 2.0  # s, after which a robot that was set down stands still


@dataclass(frozen=True)
class Lab:
    """One run of the lab.

    Attributes:
        config: The task.
        quick: Whether this is a smoke test: few robots, no speeds.
        results: Results of the sections so far, by letter.
        progress: Called with a line that describes the present work.
        device: Where MuJoCo Warp's robots live, cpu or cuda:N; None if there is no such place.
    """

    config: EnvConfig
    quick: bool
    results: dict[str, Any] = field(default_factory=dict)
    progress: Callable[[str], None] = lambda line: None
    device: str | None = None


@dataclass(frozen=True)
class Work:
    """Policy steps to simulate, each from a state of its own.

    Attributes:
        states: MuJoCo's integration states before each step [K, N, nstate].
        actions: Actions [K, N, 12] float32.
        targets: The joint targets of these actions [K, N, 12], rad.
    """

    states: np.ndarray
    actions: np.ndarray
    targets: np.ndarray

    def sample(self, steps: int, robots: int) -> "Work":
        """Draw ``steps`` policy steps of ``robots`` robots at random from these."""
        shape = (steps, robots)
        ids = np.random.default_rng(0).integers(self.states[..., 0].size, size=shape)
        flat = [x.reshape(-1, x.shape[-1]) for x in (self.states, self.actions, self.targets)]
        return Work(*(x[ids] for x in flat))


def collect(config: EnvConfig, spread: float, warmup: int, robots: int = ROBOTS, steps: int = STEPS) -> Work:
    """Let robots follow random joint targets and record the states that they visit.

    Args:
        config: The task.
        spread: Standard deviation of the targets about the default pose, rad.
        warmup: Policy steps before the recorded ones.
        robots: Number of robots.
        steps: Recorded policy steps.
    """
    batch = Go2Batch(config, robots, seed=0)
    rng = np.random.default_rng(0)
    shape = (warmup + steps, robots, 12)
    actions = (spread / config.control.action_scale * rng.normal(size=shape)).astype(np.float32)
    for action in actions[:warmup]:
        batch.step(action)
    states = []
    for action in actions[warmup:]:
        states.append(batch.state_dict()["rows"])
        batch.step(action)
    return Work(np.array(states), actions[warmup:], joint_targets(config, actions[warmup:]))


def joint_targets(config: EnvConfig, actions: np.ndarray) -> np.ndarray:
    """Return joint targets [..., 12], rad, of actions [..., 12] float32, exactly as the environment does."""
    return constants.DEFAULT_JOINT_POS + config.control.action_scale * actions.astype(np.float64)


def endless(config: EnvConfig) -> EnvConfig:
    """Return the task with episodes that only end by falls."""
    return replace(config, episode=replace(config.episode, length=1e6, stagger=False))


def simulations(config: EnvConfig) -> dict[str, EnvConfig]:
    """Return the two simulations that the lab measures, with nothing randomised, by name.

    ``lesson`` is that of the lesson on legged locomotion that the lab follows: MuJoCo Menagerie's physics
    (2 ms, elliptic cones, impratio 100), 4 physics steps per policy step, kp 20 N m/rad and kd 0.5 N m s/rad,
    0.25 rad per unit of action. ``task`` is the task's own.
    """
    fixed = replace(
        config.randomization,
        friction=None,
        base_mass=None,
        base_com=None,
        gain_scale=None,
        joint_damping=None,
        push_interval=None,
        action_delay=None,
    )
    task = replace(config, randomization=fixed)
    lesson = replace(
        task,
        physics=PhysicsConfig("menagerie", PHYSICS["menagerie"].timestep, 4),
        control=replace(config.control, kp=20.0, kd=0.5, action_scale=0.25),
    )
    return {"lesson": lesson, "task": task}


def keyframe(m: mujoco.MjModel) -> mujoco.MjData:
    """Return a robot in the keyframe pose with targets that hold it."""
    data = mujoco.MjData(m)
    mujoco.mj_resetDataKeyframe(m, data, 0)
    return data


def standing_robot(m: mujoco.MjModel) -> mujoco.MjData:
    """Return a robot that has stood for 2 s since it was set down in the keyframe pose."""
    data = keyframe(m)
    mujoco.mj_step(m, data, nstep=round(SETTLE / m.opt.timestep))
    return data


def state(m: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
    """Return the integration state [nstate]: everything that the future of a simulation depends on."""
    values = np.empty(mujoco.mj_stateSize(m, mujoco.mjtState.mjSTATE_INTEGRATION))
    mujoco.mj_getState(m, data, values, mujoco.mjtState.mjSTATE_INTEGRATION)
    return values


def columns(m: mujoco.MjModel, part: mujoco.mjtState) -> np.ndarray:
    """Return the indices of the numbers of ``part`` in an integration state."""
    whole = mujoco.mjtState.mjSTATE_INTEGRATION
    numbers = np.arange(mujoco.mj_stateSize(m, whole), dtype=np.float64)
    found = np.empty(mujoco.mj_stateSize(m, part))
    mujoco.mj_extractState(m, numbers, whole, found, part)
    return found.astype(int)


def clocks() -> np.ndarray:
    """Return seconds of wall-clock time and of processor time of all threads [2]."""
    return np.array([time.perf_counter(), time.process_time()])
