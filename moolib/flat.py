"""Gradients of a model as one flat buffer, the unit that travels.

`Layout` knows where each parameter's gradient lies. A `Flat` holds, in float32 (float64 if a parameter is),
the gradients and behind them, per parameter, the number of contributions in which it had a gradient, and
the `Counts`. All of these add up, so that one sum over the members reduces everything.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass

import torch

MAX_DESCRIBED = 4000  # parameters and buffers that a description lists; the rest is only counted


@dataclass
class Counts:
    """What a reduction holds besides gradients. Exact up to 2²⁴ in float32."""

    num_gradients: float = 0  # contributions with gradients
    num_skipped: float = 0  # contributions without
    batch_size: float = 0  # sum over the contributions
    num_idle: float = 0  # members that were skipped because they did not answer
    virtual_batch_size: float = 0  # the leader's; zero from all others
    buffers: float = 0  # 1 if the leader is about to send its buffers

    def tensor(self) -> torch.Tensor:
        """`[6]` float64."""
        return torch.tensor(astuple(self), dtype=torch.float64)

    @staticmethod
    def of(tensor: torch.Tensor) -> Counts:
        """From a tensor `[6]`."""
        return Counts(*tensor.tolist())


NUM_COUNTS = len(astuple(Counts()))


class Flat:
    """One buffer and its parts, all views of it."""

    def __init__(self, layout: Layout) -> None:
        sizes = [p.numel() for p in layout.parameters]
        count, total = len(sizes), sum(sizes)
        pin = any(p.is_cuda for p in layout.parameters)
        self.buffer = torch.zeros(total + count + NUM_COUNTS, dtype=layout.dtype, pin_memory=pin)
        self.gradients = self.buffer[:total]
        self.views = [
            view.view(p.shape) for view, p in zip(self.gradients.split(sizes), layout.parameters, strict=True)
        ]
        self.present = self.buffer[total : total + count]
        self.counts = self.buffer[total + count :]


class Layout:
    """Where the gradients of some parameters lie in a `Flat`.

    Args:
        parameters: Those that are frozen (`requires_grad` False) now have no place.
    """

    def __init__(self, parameters: Iterable[torch.Tensor]) -> None:
        self.parameters = [p for p in parameters if p.requires_grad]
        double = any(p.dtype == torch.float64 for p in self.parameters)
        self.dtype = torch.float64 if double else torch.float32
        self._free: list[Flat] = []

    def take(self) -> Flat:
        """A buffer with undefined contents."""
        try:
            return self._free.pop()
        except IndexError:
            return Flat(self)

    def give_back(self, flat: Flat) -> None:
        """Use a buffer again; nobody, gloo included, may refer to it any more. Thread-safe, as `take`."""
        self._free.append(flat)

    def read(self, flat: Flat, weight: float) -> None:
        """Copy the gradients, times `weight`, into `flat` and zero them; a missing one counts as zero."""
        grads = [p.grad for p in self.parameters]
        there = [grad for grad in grads if grad is not None]
        if len(there) < len(grads):
            flat.gradients.zero_()
        flat.present.copy_(torch.tensor([grad is not None for grad in grads]))
        if there:
            torch._foreach_copy_([v for v, g in zip(flat.views, grads, strict=True) if g is not None], there)
            torch._foreach_zero_(there)
        if weight != 1:
            flat.gradients.mul_(weight)

    def write(self, flat: Flat, divisor: float) -> None:
        """Put the gradients of `flat`, over `divisor`, into each `grad`, but where nobody had one."""
        present = [True] * len(self.parameters) if flat.present.all() else flat.present.tolist()
        for p, view, there in zip(self.parameters, flat.views, present, strict=True):
            if not there:
                continue
            grad = p.grad = torch.empty_like(p) if p.grad is None else p.grad
            if grad.dtype == view.dtype and grad.device == view.device:
                torch.div(view, divisor, out=grad)  # one pass over the memory
            else:
                grad.copy_(view / divisor)

    def zero(self) -> None:
        """Zero the parameters' gradients."""
        grads = [p.grad for p in self.parameters if p.grad is not None]
        if grads:
            torch._foreach_zero_(grads)


def describe(parameters: Iterable[torch.Tensor], buffers: Iterable[torch.Tensor], weighted: bool) -> str:
    """A model as text, a line per tensor: the same for models that can be reduced together."""
    parameters, buffers = list(parameters), list(buffers)
    lines = [
        f"{len(parameters)} parameters and {len(buffers)} buffers",
        f"gradients weighted {'by batch size' if weighted else 'equally'}",
    ]
    for kind, tensors in (("parameter", parameters), ("buffer", buffers)):
        for i, t in enumerate(tensors):
            frozen = " frozen" if kind == "parameter" and not t.requires_grad else ""
            lines.append(f"{kind} {i} of {str(t.dtype).removeprefix('torch.')} {list(t.shape)}{frozen}")
    rest = lines[MAX_DESCRIBED:]
    total = sum(t.numel() for t in [*parameters, *buffers])
    return "\n".join(lines[:MAX_DESCRIBED] + ([f"{total} numbers altogether"] if rest else []))


def checksum(tensors: Iterable[torch.Tensor]) -> int:
    """A number below 2⁶² that depends on every bit of the tensors: sums of their bytes as integers."""
    total = 0
    for tensor in tensors:
        flat = tensor.detach().reshape(-1)
        words = flat.view(torch.int32 if flat.element_size() % 4 == 0 else torch.uint8)
        total = (total * 1_000_003 + int(words.sum(dtype=torch.int64))) % (1 << 62)
    return total
