"""The observation normaliser, whose moments every replica agrees on."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from agent.models.equivariant import Reflection

EPSILON = 1e-4  # added to the variance, so that a constant observation stays finite


class Normalizer(nn.Module):
    """Scale observations to mean 0 and variance 1.

    `add_moments` takes in sums over the observations of the whole group; `apply_moments` puts them into use.
    Every replica calls both at the same update, with reduced quantities, so the replicas stay equal. With a
    mirror, each observation counts as itself and as its mirror image, so normalising commutes with the
    reflection.
    """

    count: Tensor
    sum: Tensor
    square_sum: Tensor
    mean: Tensor
    inverse_std: Tensor

    MAX_DEVIATIONS = 10.0  # normalised observations are clipped to +- this, as in CleanRL

    def __init__(self, size: int, mirror: Reflection | None = None) -> None:
        super().__init__()
        self.mirror = mirror or Reflection.identity(size)
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("sum", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("square_sum", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("inverse_std", torch.ones(size))

    def forward(self, obs: Tensor) -> Tensor:
        """Return the normalised observations `[..., D]`."""
        normal = (obs - self.mean) * self.inverse_std
        return normal.clamp(-self.MAX_DEVIATIONS, self.MAX_DEVIATIONS)

    @staticmethod
    def moments(obs: Tensor) -> Tensor:
        """Return count, sum and sum of squares of observations `[..., D]` as one vector `[1 + 2 D]`."""
        flat = obs.reshape(-1, obs.shape[-1])
        return torch.cat([flat.new_tensor([float(len(flat))]), flat.sum(0), flat.square().sum(0)])

    def add_moments(self, moments: Tensor) -> None:
        """Add reduced moments `[1 + 2 D]`; `forward` uses them after the next `apply_moments()`."""
        size = len(self.mean)
        moments = moments.to(self.sum)
        self.count += moments[0]
        self.sum += moments[1 : 1 + size]
        self.square_sum += moments[1 + size :]

    def apply_moments(self) -> None:
        """Normalise by the moments added so far."""
        if self.count > 0:
            index, sign = self.mirror.index.to(self.sum.device), self.mirror.sign.to(self.sum.device)
            mean = 0.5 * (self.sum + self.sum[index] * sign) / self.count
            square = 0.5 * (self.square_sum + self.square_sum[index]) / self.count
            variance = (square - mean.square()).clamp(min=0)
            self.mean.copy_(mean)
            self.inverse_std.copy_((variance + EPSILON).rsqrt())
