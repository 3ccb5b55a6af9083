"""The Go2's left-right mirror image: how observations and actions change when the robot is seen in a mirror.

The mirror is the robot's x-z plane. Left and right legs swap; of vectors the y component changes its sign,
of angular velocities (which are pseudovectors) x and z do, and so does the abduction of the hips. Half a
gait period turns the trot into its mirror image, so the clock's sine and cosine change their signs.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

JOINTS = (3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8)  # where joint i's image is: FL <-> FR, RL <-> RR
JOINT_SIGNS = (-1, 1, 1) * 4  # hips turn the other way, thighs and calves do not

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
    """`mirrored = values[..., index] * sign` for observations [D] and actions [12]; twice is the identity."""

    obs_index: np.ndarray
    obs_sign: np.ndarray
    action_index: np.ndarray
    action_sign: np.ndarray


def mirror(terms: Iterable[tuple[str, int, object]]) -> Mirror:
    """The mirror image for observations made of these terms.

    Args:
        terms: (name, dimension, scale) of each term, in order.

    Raises:
        ValueError: It is not known how a term is mirrored.
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
