"""Sums over the whole group that travel inside the gradient reduction.

Counters, episode statistics, the observation moments of the normaliser and the KL divergence of an adaptive
learning rate must be the same on all peers, at the same update. So they ride along as the "gradient" of one
more parameter, which nobody optimises: no extra round, and no peer can ever see another value than the
others do.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn


class GroupSums:
    """Named vectors that are added up locally, contributed with a gradient, and read after its reduction.

    Args:
        sizes: the length of each named vector.
    """

    def __init__(self, sizes: dict[str, int]) -> None:
        self._slices: dict[str, slice] = {}
        begin = 0
        for name, size in sizes.items():
            self._slices[name] = slice(begin, begin + size)
            begin += size
        self.parameter = nn.Parameter(torch.zeros(begin))
        self._pending = np.zeros(begin)

    def add(self, name: str, value: np.ndarray | float) -> None:
        """Adds `value` (a scalar or a vector of the named size) to what the next contribution carries."""
        self._pending[self._slices[name]] += value

    def attach(self) -> None:
        """Moves what was added since the last time into the parameter's gradient."""
        self.parameter.grad = torch.from_numpy(self._pending.astype(np.float32))
        self._pending[:] = 0.0

    def read(self, contributions: int) -> dict[str, Tensor]:
        """The sums over the group after a reduction, which averaged over so many contributions."""
        assert self.parameter.grad is not None
        total = self.parameter.grad * contributions
        return {name: total[part] for name, part in self._slices.items()}

    def state_dict(self) -> dict[str, np.ndarray]:
        return {"pending": self._pending.copy()}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        self._pending[:] = state["pending"]
