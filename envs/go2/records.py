"""Per-robot records of the episode in progress that no term reads, and the check of saved states."""

from dataclasses import dataclass, fields
from typing import Generic

import numpy as np

from envs.arrays import Array, constant, zeros
from envs.go2.robot.constants import DEFAULT_JOINTS


@dataclass
class Records(Generic[Array]):
    """Records of B robots."""

    steps: Array  # [B] int32, age of the episode in policy steps
    length: Array  # [B] int32, policy steps taken in the episode: fewer than its age if it began aged
    wait: Array  # [B] int32, policy steps until the next command
    phase: Array  # [B] cycles of the gait clock at the start of the episode
    return_: Array  # [B] float32, sum of the episode's rewards
    held: Array  # [B] bool, the command is held by `set_commands`
    target: Array  # [B, 12] rad, the newest joint targets
    delay: Array  # [B] int32, physics steps by which targets arrive late

    @staticmethod
    def start(n: int, single: Array, precise: Array) -> "Records[Array]":
        """Make the records of ``n`` robots at rest.

        Args:
            n: Number of robots.
            single: Any float32 array of the backend.
            precise: Any array in the precision of the physics.
        """
        target = zeros((n, 12), precise)
        target += constant(DEFAULT_JOINTS, target)
        return Records(
            steps=zeros((n,), single, "int32"),
            length=zeros((n,), single, "int32"),
            wait=zeros((n,), single, "int32"),
            phase=zeros((n,), precise),
            return_=zeros((n,), single),
            held=zeros((n,), single, "bool"),
            target=target,
            delay=zeros((n,), single, "int32"),
        )

    def live_arrays(self) -> dict[str, Array]:
        """Return the arrays by the keys under which checkpoints hold them."""
        return {f"record_{f.name.rstrip('_')}": getattr(self, f.name) for f in fields(self)}


def check_saved(saved: dict[str, np.ndarray], present: dict[str, np.ndarray]) -> None:
    """Check that a saved state has the arrays of the present one, in the same shapes.

    Raises:
        ValueError: If it does not; one line.
    """
    for name in present.keys() ^ saved.keys():
        raise ValueError(f"environment state {name}: saved by a different task")
    for name, values in present.items():
        if values.shape != saved[name].shape:
            raise ValueError(f"environment state {name}{saved[name].shape}: must have shape {values.shape}")
