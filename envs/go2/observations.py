"""Observation terms: pure functions of the state, each [B, dim], unscaled and without noise.

A stranger can compute every one from MuJoCo's qpos and qvel, the last action, the command and the time since
reset.
"""

from collections.abc import Callable

import numpy as np

from envs.config import ObservationConfig
from envs.go2.state import State

STANDING_COMMAND = 0.01  # commands with a norm up to this mean: stand still, the clock is hidden


def base_lin_vel(state: State) -> np.ndarray:
    """Velocity of the base frame's origin in the base frame [B, 3], m/s."""
    return state.base_lin_vel


def base_ang_vel(state: State) -> np.ndarray:
    """Angular velocity of the base in the base frame [B, 3], rad/s."""
    return state.base_ang_vel


def projected_gravity(state: State) -> np.ndarray:
    """Direction of gravity in the base frame [B, 3]; (0, 0, -1) when upright."""
    return state.projected_gravity


def joint_pos(state: State) -> np.ndarray:
    """Joint angles minus the default ones [B, 12], rad."""
    return state.joint_offset


def joint_vel(state: State) -> np.ndarray:
    """Joint speeds [B, 12], rad/s."""
    return state.joint_vel


def last_action(state: State) -> np.ndarray:
    """The action of the step before, as the policy gave it [B, 12]."""
    return state.action


def command(state: State) -> np.ndarray:
    """Wanted vx, vy (m/s) and yaw rate (rad/s) in the base frame [B, 3]."""
    return state.command


def gait_phase(state: State) -> np.ndarray:
    """Sine and cosine of the gait's clock [B, 2]; both 0 while the command is to stand."""
    angle = np.float32(2 * np.pi) * state.clock
    walks = walking(state.command)
    return np.stack([np.sin(angle) * walks, np.cos(angle) * walks], axis=1)


def walking(commands: np.ndarray) -> np.ndarray:
    """Which commands [B, 3] ask for motion [B] bool."""
    return np.einsum("bi,bi->b", commands, commands) > STANDING_COMMAND**2


TERMS: dict[str, tuple[int, Callable[[State], np.ndarray]]] = {
    "base_lin_vel": (3, base_lin_vel),
    "base_ang_vel": (3, base_ang_vel),
    "projected_gravity": (3, projected_gravity),
    "joint_pos": (12, joint_pos),
    "joint_vel": (12, joint_vel),
    "last_action": (12, last_action),
    "command": (3, command),
    "gait_phase": (2, gait_phase),
}


class Observer:
    """Concatenates the configured terms: ``clip((term + noise) * scale)``.

    Attributes:
        dim: Length of one observation.
        terms: (name, dimension, scale) of every term, in order.
    """

    def __init__(self, config: ObservationConfig):
        for name, term in config.terms.items():
            _check(name, term.scale)
        self.terms = [(name, TERMS[name][0], term.scale) for name, term in config.terms.items()]
        self.dim = sum(dim for _, dim, _ in self.terms)
        self._functions = [(TERMS[name][1], dim) for name, dim, _ in self.terms]
        scales = [np.broadcast_to(np.asarray(scale, np.float32), dim) for _, dim, scale in self.terms]
        noises = [np.full(TERMS[name][0], term.noise, np.float32) for name, term in config.terms.items()]
        self._scale, self._noise = np.concatenate(scales), np.concatenate(noises)
        self._noisy = config.noise and bool(self._noise.any())
        self._clip = np.float32(config.clip)

    def observe(self, state: State, rng: np.random.Generator, out: np.ndarray | None = None) -> np.ndarray:
        """Observations [B, dim] float32 of a state."""
        if out is None:
            out = np.empty((len(state.qpos), self.dim), np.float32)
        start = 0
        for function, dim in self._functions:
            out[:, start : start + dim] = function(state)
            start += dim
        if self._noisy:
            uniform = rng.random(out.shape, np.float32)
            uniform -= np.float32(0.5)
            uniform *= 2 * self._noise
            out += uniform
        out *= self._scale
        return np.clip(out, -self._clip, self._clip, out=out)


def _check(name: str, scale: float | tuple[float, ...]) -> None:
    path = f"env.observations.terms.{name}"
    if name not in TERMS:
        raise ValueError(f"{path}: unknown term; allowed are {', '.join(TERMS)}")
    dim = TERMS[name][0]
    if isinstance(scale, tuple) and len(scale) != dim:
        raise ValueError(f"{path}.scale={list(scale)}: must be a number or a list of {dim} numbers")
