"""Observation terms: pure functions of the state, each [B, dim], unscaled and without noise.

All of them follow from MuJoCo's qpos and qvel, the last action, the command and the time since the reset.
"""

import math
from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np

from envs.arrays import Array, Random, constant, namespace, zeros
from envs.config import ObservationConfig
from envs.go2.mdp.state import State

STANDING_COMMAND = 0.01  # commands with a norm up to this mean: stand still; the clock is hidden


def base_lin_vel(state: State[Array]) -> Array:
    """Return the velocity of the base frame's origin in the base frame [B, 3], m/s."""
    return state.base_lin_vel


def base_ang_vel(state: State[Array]) -> Array:
    """Return the angular velocity of the base in the base frame [B, 3], rad/s."""
    return state.base_ang_vel


def projected_gravity(state: State[Array]) -> Array:
    """Return the direction of gravity in the base frame [B, 3]; (0, 0, -1) when upright."""
    return state.projected_gravity


def joint_pos(state: State[Array]) -> Array:
    """Return the joint angles minus the default ones [B, 12], rad."""
    return state.joint_offset


def joint_vel(state: State[Array]) -> Array:
    """Return the joint speeds [B, 12], rad/s."""
    return state.joint_vel


def last_action(state: State[Array]) -> Array:
    """Return the last action as the policy gave it, clipped [B, 12]."""
    return state.action


def command(state: State[Array]) -> Array:
    """Return the commanded vx, vy (m/s) and yaw rate (rad/s) in the base frame [B, 3]."""
    return state.command


def gait_phase(state: State[Array]) -> Array:
    """Return sine and cosine of the gait clock [B, 2]; both are 0 while the command is to stand."""
    xp, angle = namespace(state.clock), 2 * math.pi * state.clock
    walks = walking(state.command)
    return xp.stack([xp.sin(angle) * walks, xp.cos(angle) * walks], 1)


def walking(commands: Array) -> Array:
    """Return which commands [B, 3] ask for motion [B] bool."""
    return namespace(commands).einsum("bi,bi->b", commands, commands) > STANDING_COMMAND**2


TERMS: dict[str, tuple[int, Callable[[State[Any]], Any]]] = {
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
    """Concatenates the configured terms: ``clip((term + noise) * scale)``, noise uniform.

    Attributes:
        dim: Length of one observation.
        terms: (name, dimension, scale) of every term, in order.
    """

    def __init__(self, config: ObservationConfig):
        """Look up the terms.

        Raises:
            ValueError: On an unknown term, or a scale of another length; one line.
        """
        for name, term in config.terms.items():
            _check(name, term.scale)
        self.terms = [(name, TERMS[name][0], term.scale) for name, term in config.terms.items()]
        self.dim = sum(dim for _, dim, _ in self.terms)
        self._functions = [(TERMS[name][1], dim) for name, dim, _ in self.terms]
        scales = [np.broadcast_to(scale, dim).tolist() for _, dim, scale in self.terms]
        noises = [[term.noise] * TERMS[name][0] for name, term in config.terms.items()]
        self._scale, self._noise = tuple(chain(*scales)), tuple(chain(*noises))
        self._noisy = config.noise and any(self._noise)
        self._clip = config.clip

    def observe(self, state: State[Array], rng: Random[Array] | None, out: Array | None = None) -> Array:
        """Return the observations [B, dim] float32 of a state.

        Args:
            state: The state.
            rng: The source of noise; needed only if the task adds noise.
            out: Where to write them; None for new memory.

        Raises:
            ValueError: If noise is to be added and ``rng`` is None.
        """
        if out is None:
            out = zeros((len(state.qpos), self.dim), state.qpos)
        start = 0
        for function, dim in self._functions:
            out[:, start : start + dim] = function(state)
            start += dim
        if self._noisy:
            if rng is None:
                raise ValueError("observations with noise need a generator")
            uniform = rng.random(out.shape, np.float32)
            uniform -= 0.5
            uniform *= 2 * constant(self._noise, out)
            out += uniform
        out *= constant(self._scale, out)
        return namespace(out).clip(out, -self._clip, self._clip, out=out)


def _check(name: str, scale: float | tuple[float, ...]) -> None:
    path = f"env.observations.terms.{name}"
    if name not in TERMS:
        raise ValueError(f"{path}: unknown term; allowed are {', '.join(TERMS)}")
    dim = TERMS[name][0]
    if isinstance(scale, tuple) and len(scale) != dim:
        raise ValueError(f"{path}.scale={list(scale)}: must be a number or a list of {dim} numbers")
