"""The seam between the shared step and the backends: their physics, and addressing some robots of a batch.

On the host, some robots are indices, and work is done for them alone. On a device, they are a mask whose
values the host must not read, so the work is done for every robot and kept where the mask is set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from envs.arrays import Array, Array_contra
from envs.go2.mdp.randomization import PerRobotModel

if TYPE_CHECKING:
    from torch import Tensor


class Rows(Protocol[Array_contra]):
    """Some robots of a batch; false if the host knows that there are none.

    Attributes:
        count: Number of rows to compute, n.
        index: Index of these rows [n, ...] in an array [B, ...].
    """

    count: int
    index: Any

    def __bool__(self) -> bool: ...

    def put(self, target: Array_contra, values: Array_contra | float) -> None:
        """Write values [n, ...], or one number, into these robots' rows of ``target`` [B, ...]."""


class IndexedRows:
    """``Rows`` of NumPy arrays, by the robots' indices [n]."""

    def __init__(self, index: np.ndarray):
        self.index, self.count = index, len(index)

    def __bool__(self) -> bool:
        return self.count > 0

    def put(self, target: np.ndarray, values: np.ndarray | float) -> None:
        target[self.index] = values


class MaskedRows:
    """``Rows`` of torch tensors, by a mask [B]; every robot is computed, so n is B."""

    def __init__(self, mask: Tensor):
        self.mask, self.index, self.count = mask, slice(None), len(mask)

    def __bool__(self) -> bool:
        return True

    def put(self, target: Tensor, values: Tensor | float) -> None:
        mask = self.mask.view(-1, *[1] * (target.dim() - 1))
        if isinstance(values, int | float):
            target.masked_fill_(mask, values)
        else:
            target.copy_(values.where(mask, target))


class Simulation(PerRobotModel[Array], Protocol[Array]):
    """The physics of B robots on a backend.

    Attributes:
        qpos, qvel: Live positions [B, 19] and velocities [B, 18], in the physics' own precision.
        sensors: Readings [B, nsensordata] float32 as of the start of the last physics step.
        torque: Joint torques [B, 12] float32, N m, as of the start of the last physics step.
    """

    qpos: Array
    qvel: Array
    sensors: Array
    torque: Array

    def place(self, rows: Rows[Array], qpos: Array, qvel: Array) -> None:
        """Put robots into fresh simulations at positions [n, 19] and velocities [n, 18]."""
