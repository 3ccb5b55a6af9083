"""The gradients of a model as one flat buffer, the unit of reduction.

A `GradientLayout` knows where each parameter's gradient lies. A `GradientBuffer` holds, in float32 (float64
if any parameter is), the gradients, then one number per parameter that is above 0 if any contribution had a
gradient for it, then the `Counts`. All of these add up, so one sum over the members reduces everything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch

MAX_DESCRIBED = 2000  # parameters and buffers that a description lists; the rest is only counted


class Counts(NamedTuple):
    """The part of a reduction besides gradients. Exact up to 2²⁴ in float32."""

    num_gradients: float = 0  # contributions with gradients
    num_skipped: float = 0  # contributions without
    batch_size: float = 0  # sum over the contributions
    num_idle: float = 0  # members that were skipped because they did not answer
    virtual_batch_size: float = 0  # the leader's; zero from all others
    buffers: float = 0  # 1 if the leader is about to send its buffers

    def tensor(self) -> torch.Tensor:
        """Return the counts as a tensor `[6]`, float64."""
        return torch.tensor(self, dtype=torch.float64)

    @staticmethod
    def of(tensor: torch.Tensor) -> Counts:
        """Return the counts of a tensor `[6]`."""
        return Counts(*tensor.tolist())


class GradientBuffer:
    """One flat buffer and its parts, all of them views.

    Attributes:
        storage: Everything, `[total + parameters + 6]`.
        gradients: All gradients, `[total]`.
        views: The gradient of each parameter, in its shape.
        present: For each parameter, above 0 if it had a gradient.
        counts: `Counts` as a tensor `[6]`.
    """

    def __init__(self, parameters: Sequence[torch.Tensor], dtype: torch.dtype) -> None:
        """Reserve a buffer of zeros, in pinned memory if a parameter is on a GPU."""
        sizes = [p.numel() for p in parameters]
        count, total = len(sizes), sum(sizes)
        pin = any(p.is_cuda for p in parameters)
        self.storage = torch.zeros(total + count + len(Counts._fields), dtype=dtype, pin_memory=pin)
        self.gradients = self.storage[:total]
        parts = torch.split(self.gradients, sizes)
        self.views = [part.view(p.shape) for part, p in zip(parts, parameters, strict=True)]
        self.present = self.storage[total : total + count]
        self.counts = self.storage[total + count :]
        self._zero_at = -1  # version of the storage when its gradients were last zeroed

    def is_zero(self) -> bool:
        """Return True if nothing has written to the storage since its gradients were zeroed.

        As in autograd, writes through `.data` or NumPy go unnoticed.
        """
        return self._zero_at == self.storage._version

    def zero(self) -> None:
        """Zero the gradients, unless they are zero already."""
        if not self.is_zero():
            self.gradients.zero_()
            self._zero_at = self.storage._version


class GradientLayout:
    """Reads and writes the gradients of some parameters, and keeps the buffers for them.

    The result of a step is not copied: each `grad` becomes a view of the reduced buffer, so that the next
    backward pass writes where the next reduction reads. A `grad` that is not such a view, because the program
    replaced it (or set it to None) or because its dtype or device differs, is copied instead.

    Args:
        parameters: The model's; those that are frozen (`requires_grad` False) now are left out.
    """

    def __init__(self, parameters: Iterable[torch.Tensor]) -> None:
        self.parameters = [p for p in parameters if p.requires_grad]
        double = any(p.dtype == torch.float64 for p in self.parameters)
        self.dtype = torch.float64 if double else torch.float32
        self._free: deque[GradientBuffer] = deque()  # those known to be zero on the left
        self._attached: GradientBuffer | None = None  # the one whose views are the program's gradients

    def take(self, zero: bool = False) -> GradientBuffer:
        """Return a buffer with undefined contents, preferably one that is zero, or one that is not."""
        try:
            return self._free.popleft() if zero else self._free.pop()
        except IndexError:
            return GradientBuffer(self.parameters, self.dtype)

    def give_back(self, buffer: GradientBuffer) -> None:
        """Reuse a buffer, to which nobody, gloo included, may refer any more. Thread-safe, as `take` is."""
        if buffer.is_zero():
            self._free.appendleft(buffer)
        else:
            self._free.append(buffer)

    def read(self, weight: float) -> GradientBuffer:
        """Return a buffer with the parameters' gradients times `weight`, 0 for a missing one.

        The buffer may be the one that the program's gradients are views of: call `zero` next.
        """
        grads = [p.grad for p in self.parameters]
        attached = self._attached
        if attached and all(g is None or g is v for g, v in zip(grads, attached.views, strict=True)):
            self._attach(self.take(zero=True), [g is not None for g in grads])
            return _completed(attached, grads, weight)
        return _completed(self._copied(grads), grads, weight)

    def copy(self, gradients: Sequence[torch.Tensor | None], weight: float) -> GradientBuffer:
        """Return a buffer with a copy of `gradients` times `weight`, 0 for None; use no parameter's `grad`.

        Raises:
            ValueError: Their number or a shape differs from the parameters'.
        """
        shapes = [None if g is None else g.shape for g in gradients]
        if len(shapes) != len(self.parameters):
            raise ValueError(f"{len(shapes)} gradients for {len(self.parameters)} parameters")
        for i, (shape, p) in enumerate(zip(shapes, self.parameters, strict=True)):
            if shape is not None and shape != p.shape:
                raise ValueError(f"gradient {i} has shape {list(shape)}, its parameter {list(p.shape)}")
        return _completed(self._copied(gradients), gradients, weight)

    def write(self, buffer: GradientBuffer) -> None:
        """Make the contents of `buffer` the gradients of those parameters for which anybody had one.

        The layout owns the buffer from now on.
        """
        present = [True] * len(self.parameters) if buffer.present.all() else buffer.present.tolist()
        old = self._attached
        self._attach(buffer, present)
        if old and not any(p.grad is v for p, v in zip(self.parameters, old.views, strict=True)):
            self.give_back(old)

    def zero(self) -> None:
        """Zero the parameters' gradients."""
        grads = [p.grad for p in self.parameters]
        views = self._attached.views if self._attached else [None] * len(grads)
        others = [g for g, v in zip(grads, views, strict=True) if g is not None and g is not v]
        if others:
            torch._foreach_zero_(others)
        if self._attached:
            self._attached.zero()

    def _copied(self, gradients: Sequence[torch.Tensor | None]) -> GradientBuffer:
        buffer = self.take()
        pairs = [(v, g) for v, g in zip(buffer.views, gradients, strict=True) if g is not None]
        if pairs:
            torch._foreach_copy_([view for view, _ in pairs], [gradient for _, gradient in pairs])
        return buffer

    def _attach(self, buffer: GradientBuffer, which: list[bool]) -> None:
        self._attached = buffer
        for p, view, present in zip(self.parameters, buffer.views, which, strict=True):
            if not present:
                continue
            if (p.dtype, p.device) == (view.dtype, view.device):
                p.grad = view
            elif p.grad is None:
                p.grad = view.to(p.device, p.dtype)
            else:
                p.grad.copy_(view)


def _completed(
    buffer: GradientBuffer, gradients: Sequence[torch.Tensor | None], weight: float
) -> GradientBuffer:
    """Zero the missing gradients, mark those that are present, and apply the weight."""
    missing = [v for v, g in zip(buffer.views, gradients, strict=True) if g is None]
    if missing:
        torch._foreach_zero_(missing)
    buffer.present.copy_(torch.tensor([g is not None for g in gradients]))
    if weight != 1:
        buffer.gradients.mul_(weight)
    return buffer


def describe(parameters: Iterable[torch.Tensor], buffers: Iterable[torch.Tensor], weighted: bool) -> str:
    """Describe a model in one line per tensor; the same text for models that can be reduced together."""
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
    """Return a number below 2⁶² that depends on every bit of the tensors: sums of their bytes as integers."""
    total = 0
    for tensor in tensors:
        flat = tensor.detach().reshape(-1)
        words = flat.view(torch.int32 if flat.element_size() % 4 == 0 else torch.uint8)
        total = (total * 1_000_003 + int(words.sum(dtype=torch.int64))) % (1 << 62)
    return total
