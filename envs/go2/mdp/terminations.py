"""Terminations: pure functions of the state, each [B] bool. A time-out is not one of them."""

from envs.arrays import Array, namespace
from envs.config import TerminationConfig
from envs.go2.mdp.state import State


def tipped(state: State[Array], min_upright: float) -> Array:
    """Return whether the base's up axis times the world's is below ``min_upright``."""
    return -state.projected_gravity[:, 2] < min_upright


def rolled(state: State[Array], max_roll: float) -> Array:
    """Return whether |roll| exceeds ``max_roll`` rad."""
    return abs(state.roll_pitch[0]) > max_roll


def pitched(state: State[Array], max_pitch: float) -> Array:
    """Return whether |pitch| exceeds ``max_pitch`` rad."""
    return abs(state.roll_pitch[1]) > max_pitch


def base_touched(state: State[Array], force: float) -> Array:
    """Return whether the net contact force on the base exceeds ``force`` N."""
    base = state.link_force[:, 0]
    return namespace(base).einsum("bi,bi->b", base, base) > force**2


def fallen(state: State[Array], config: TerminationConfig) -> Array:
    """Return whether any of the configured terminations holds [B] bool."""
    result = namespace(state.contact).zeros_like(state.contact[:, 0])
    if config.min_upright is not None:
        result |= tipped(state, config.min_upright)
    if config.max_roll is not None:
        result |= rolled(state, config.max_roll)
    if config.max_pitch is not None:
        result |= pitched(state, config.max_pitch)
    if config.base_contact is not None:
        result |= base_touched(state, config.base_contact)
    return result
