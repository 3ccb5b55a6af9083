"""Layers that know the robot's mirror image: a mirrored input gives the mirrored output, for any weights.

Hidden units come in pairs, each the other's mirror image. So a layer has half the weights of an ordinary one
of its width, costs the same, and whatever is learned on the left is known on the right.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Reflection:
    """How the vectors of a space look in the mirror: `x[..., index] * sign`; twice is the identity."""

    index: Tensor
    sign: Tensor

    @classmethod
    def of_pairs(cls, width: int) -> Reflection:
        """The reflection of `width` hidden units: the first half and the second change places."""
        return cls(torch.arange(width).roll(width // 2), torch.ones(width))

    @classmethod
    def identity(cls, width: int) -> Reflection:
        return cls(torch.arange(width), torch.ones(width))


class _Symmetric(nn.Module):
    """A linear layer that commutes with the reflections of its input and output."""

    in_index: Tensor
    in_sign: Tensor

    def __init__(self, before: Reflection, rows: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(rows, len(before.index)))
        self.bias = nn.Parameter(torch.zeros(rows))
        self.register_buffer("in_index", before.index, persistent=False)
        self.register_buffer("in_sign", before.sign, persistent=False)

    def _of_mirrored_input(self) -> Tensor:
        """The weight that does to an input what ours does to its mirror image."""
        return self.weight[:, self.in_index] * self.in_sign


class Lift(_Symmetric):
    """To `width` hidden units, the second half being what the first would be in the mirror."""

    def __init__(self, before: Reflection, width: int) -> None:
        super().__init__(before, width // 2)

    def forward(self, x: Tensor) -> Tensor:
        weight = torch.cat([self.weight, self._of_mirrored_input()])
        return functional.linear(x, weight, torch.cat([self.bias, self.bias]))


class Project(_Symmetric):
    """To the space of another reflection, by the mean of a linear layer and its mirror image."""

    out_index: Tensor
    out_sign: Tensor

    def __init__(self, before: Reflection, after: Reflection) -> None:
        super().__init__(before, len(after.index))
        self.register_buffer("out_index", after.index, persistent=False)
        self.register_buffer("out_sign", after.sign, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        mirrored = self._of_mirrored_input()[self.out_index] * self.out_sign[:, None]
        bias = self.bias + self.bias[self.out_index] * self.out_sign
        return functional.linear(x, 0.5 * (self.weight + mirrored), 0.5 * bias)
