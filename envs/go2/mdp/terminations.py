"""Terminations: pure functions of the state, each [B] bool. A time-out is not one of them."""

from envs.config import TerminationConfig
from envs.go2.arrays import Array, namespace
from envs.go2.state import State


def tipped(state: State, min_upright: float) -> Array:
    """The base's up axis times the world's is below ``min_upright``."""
    return -state.projected_gravity[:, 2] < min_upright


def rolled(state: State, max_roll: float) -> Array:
    """|roll| exceeds ``max_roll`` rad."""
    return abs(state.roll_pitch[0]) > max_roll


def pitched(state: State, max_pitch: float) -> Array:
    """|pitch| exceeds ``max_pitch`` rad."""
    return abs(state.roll_pitch[1]) > max_pitch


def base_touched(state: State, force: float) -> Array:
    """The net contact force on the base exceeds ``force`` N."""
    base = state.link_force[:, 0]
    return namespace(base).einsum("bi,bi->b", base, base) > force**2


def fallen(state: State, config: TerminationConfig) -> Array:
    """Whether any of the configured terminations holds [B] bool."""
    result = namespace(state.contact).zeros_like(state.contact[:, 0])
    checks = (
        (tipped, config.min_upright),
        (rolled, config.max_roll),
        (pitched, config.max_pitch),
        (base_touched, config.base_contact),
    )
    for check, limit in checks:
        if limit is not None:
            result |= check(state, limit)
    return result
