"""Linear layers that commute with the robot's mirror image, for any weights: mirror the input, and the output
is mirrored.

Hidden units come in pairs, each the other's mirror image. Such a layer has half the weights of an ordinary
one of its width, costs the same, and whatever the left side learns, the right side knows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Reflection:
    """The mirror image of a vector, `x[..., index] * sign`; applied twice it is the identity.

    Attributes:
        index: `[D]` int64.
        sign: `[D]`, 1 or -1.
    """

    index: Tensor
    sign: Tensor

    @classmethod
    def of_pairs(cls, width: int) -> Reflection:
        """Return the reflection of `width` hidden units, which swaps the two halves."""
        return cls(torch.arange(width).roll(width // 2), torch.ones(width))

    @classmethod
    def identity(cls, width: int) -> Reflection:
        """Return the reflection that changes nothing."""
        return cls(torch.arange(width), torch.ones(width))


class _Equivariant(nn.Module):
    """A linear layer that commutes with the reflections of its input and output."""

    in_index: Tensor
    in_sign: Tensor

    def __init__(self, inputs: Reflection, rows: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(rows, len(inputs.index)))
        self.bias = nn.Parameter(torch.zeros(rows))
        self.register_buffer("in_index", inputs.index, persistent=False)
        self.register_buffer("in_sign", inputs.sign, persistent=False)

    def _mirrored_weight(self) -> Tensor:
        """Return the weight that does to an input what ours does to its mirror image."""
        return self.weight[:, self.in_index] * self.in_sign


class EquivariantLinear(_Equivariant):
    """A layer of `width` hidden units; the second half is what the first would be in the mirror."""

    def __init__(self, inputs: Reflection, width: int) -> None:
        super().__init__(inputs, width // 2)

    def forward(self, x: Tensor) -> Tensor:
        """Map `[..., D]` to `[..., width]`."""
        weight = torch.cat([self.weight, self._mirrored_weight()])
        return functional.linear(x, weight, torch.cat([self.bias, self.bias]))


class EquivariantHead(_Equivariant):
    """An output layer: the mean of a linear layer and its mirror image."""

    out_index: Tensor
    out_sign: Tensor

    def __init__(self, inputs: Reflection, outputs: Reflection) -> None:
        super().__init__(inputs, len(outputs.index))
        self.register_buffer("out_index", outputs.index, persistent=False)
        self.register_buffer("out_sign", outputs.sign, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map `[..., D]` to `[..., outputs]`."""
        mirrored = self._mirrored_weight()[self.out_index] * self.out_sign[:, None]
        bias = self.bias + self.bias[self.out_index] * self.out_sign
        return functional.linear(x, 0.5 * (self.weight + mirrored), 0.5 * bias)
