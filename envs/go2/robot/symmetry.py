"""The Go2's left-right symmetry: observations and actions of the mirror image of a robot.

The mirror is the robot's x-z plane. Left and right legs swap places. Vectors change the sign of y, angular
velocities (pseudovectors) that of x and z, and hip joints (abduction) that of their angle. Half a gait period
turns the trot into its mirror image, so the sine and cosine of the gait clock change their signs.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

JOINTS = (3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8)  # index of the image of joint i: FL <-> FR, RL <-> RR
JOINT_SIGNS = (-1, 1, 1) * 4  # hips change their sign, thighs and calves do not

_IN_PLACE = {
    "base_lin_vel": (1, -1, 1),
    "base_ang_vel": (-1, 1, -1),
    "projected_gravity": (1, -1, 1),
    "command": (1, -1, -1),
    "gait_phase": (-1, -1),
}
_PER_JOINT = ("joint_pos", "joint_vel", "last_action")


@dataclass(frozen=True)
class Mirror:
    """Mirrors observations [D] and actions [12]: `values[..., index] * sign`; twice is the identity."""

    obs_index: np.ndarray
    obs_sign: np.ndarray
    action_index: np.ndarray
    action_sign: np.ndarray


def mirror(terms: Iterable[tuple[str, int, object]]) -> Mirror:
    """Return the mirror image for observations of these terms.

    Args:
        terms: (name, dimension, scale) of each term, in order.

    Raises:
        ValueError: If the mirror image of a term is unknown.
    """
    index: list[int] = []
    sign: list[int] = []
    for name, dim, _ in terms:
        begin = len(index)
        if name in _PER_JOINT:
            index += [begin + j for j in JOINTS]
            sign += JOINT_SIGNS
        elif name in _IN_PLACE:
            index += range(begin, begin + dim)
            sign += _IN_PLACE[name]
        else:
            raise ValueError(f"observation term {name}: no mirror image is known for it")
    return Mirror(
        np.array(index), np.array(sign, np.float32), np.array(JOINTS), np.array(JOINT_SIGNS, np.float32)
    )
