"""Random numbers on a device, under the names of ``np.random.Generator``."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from envs.arrays import Numbers, Size, constant


class DeviceRandom:
    """Draws float32 tensors on ``device``.

    Attributes:
        generator: The source of the numbers; its state is the whole state.
    """

    def __init__(self, seed: Sequence[int], device: torch.device):
        words = np.random.SeedSequence(list(seed)).generate_state(1, np.uint64)
        self.generator = torch.Generator(device).manual_seed(int(words[0]) & 2**63 - 1)
        self._like = torch.empty(0, device=device)

    def random(self, size: Size, dtype: object = None, /) -> Tensor:
        """Draw uniformly from [0, 1), always float32; ``dtype`` is ignored."""
        return torch.rand(size, generator=self.generator, device=self._like.device)

    def uniform(self, low: float | Numbers, high: float | Numbers, size: Size, /) -> Tensor:
        """Draw uniformly from [low, high); tuples run along the last axis."""
        first = constant(low, self._like) if isinstance(low, tuple) else low
        last = constant(high, self._like) if isinstance(high, tuple) else high
        return self.random(size) * (last - first) + first

    def exponential(self, scale: float, size: Size, /) -> Tensor:
        """Draw exponentially distributed numbers with mean ``scale``."""
        return torch.log1p(-self.random(size)) * -scale

    def integers(self, low: int, high: int, size: int, /) -> Tensor:
        """Draw uniformly from low, …, high - 1, int32."""
        device = self._like.device
        return torch.randint(low, high, (size,), generator=self.generator, device=device, dtype=torch.int32)
