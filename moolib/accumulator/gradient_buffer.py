"""Gradients of a model as one flat buffer, the unit that travels.

`Layout` knows where each parameter's gradient lies. A `Flat` holds, in float32 (float64 if a parameter is),
the gradients and behind them, per parameter, what is above 0 if it had a gradient in any contribution, and
the `Counts`. All of these add up, so that one sum over the members reduces everything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

import torch

MAX_DESCRIBED = 4000  # parameters and buffers that a description lists; the rest is only counted


class Counts(NamedTuple):
    """What a reduction holds besides gradients. Exact up to 2²⁴ in float32."""

    num_gradients: float = 0  # contributions with gradients
    num_skipped: float = 0  # contributions without
    batch_size: float = 0  # sum over the contributions
    num_idle: float = 0  # members that were skipped because they did not answer
    virtual_batch_size: float = 0  # the leader's; zero from all others
    buffers: float = 0  # 1 if the leader is about to send its buffers

    def tensor(self) -> torch.Tensor:
        """`[6]` float64."""
        return torch.tensor(self, dtype=torch.float64)

    @staticmethod
    def of(tensor: torch.Tensor) -> Counts:
        """From a tensor `[6]`."""
        return Counts(*tensor.tolist())


class Flat:
    """One buffer and its parts, all views of it."""

    def __init__(self, layout: Layout) -> None:
        sizes = [p.numel() for p in layout.parameters]
        count, total = len(sizes), sum(sizes)
        pin = any(p.is_cuda for p in layout.parameters)
        self.buffer = torch.zeros(total + count + len(Counts._fields), dtype=layout.dtype, pin_memory=pin)
        self.gradients = self.buffer[:total]
        self.views = [
            view.view(p.shape) for view, p in zip(self.gradients.split(sizes), layout.parameters, strict=True)
        ]
        self.present = self.buffer[total : total + count]
        self.counts = self.buffer[total + count :]
        self._zero_at = -1  # version of the buffer when its gradients were last zeroed

    def is_zero(self) -> bool:
        """Whether the gradients are known to be zero: nothing wrote to the buffer since they were zeroed.

        As for autograd, writing by way of `.data` or NumPy is not noticed.
        """
        return self._zero_at == self.buffer._version

    def zero(self) -> None:
        """Zero the gradients, unless they are."""
        if not self.is_zero():
            self.gradients.zero_()
            self._zero_at = self.buffer._version


class Layout:
    """Where the gradients of some parameters lie in a `Flat`.

    What a step gives to the program is not copied: each `grad` becomes a view of a `Flat`, so that the next
    backward pass writes where the next reduction reads. A `grad` that is not such a view, because the program
    has put another one there (or None) or because its dtype or device is another, is copied instead.

    Args:
        parameters: Those that are frozen (`requires_grad` False) now have no place.
    """

    def __init__(self, parameters: Iterable[torch.Tensor]) -> None:
        self.parameters = [p for p in parameters if p.requires_grad]
        double = any(p.dtype == torch.float64 for p in self.parameters)
        self.dtype = torch.float64 if double else torch.float32
        self._free: deque[Flat] = deque()  # those known to be zero on the left
        self._shown: Flat | None = None  # the one whose views the program has as gradients

    def take(self, zero: bool = False) -> Flat:
        """A buffer with undefined contents, preferably one that is zero, or not."""
        try:
            return self._free.popleft() if zero else self._free.pop()
        except IndexError:
            return Flat(self)

    def give_back(self, flat: Flat) -> None:
        """Use a buffer again; nobody, gloo included, may refer to it any more. Thread-safe, as `take`."""
        if flat.is_zero():
            self._free.appendleft(flat)
        else:
            self._free.append(flat)

    def read(self, weight: float) -> Flat:
        """A buffer with the gradients times `weight`, 0 for a missing one. To be followed by `zero`."""
        grads = [p.grad for p in self.parameters]
        shown = self._shown
        if shown and all(g is None or g is v for g, v in zip(grads, shown.views, strict=True)):
            flat = shown
            self._show(self.take(zero=True), [g is not None for g in grads])
        else:
            flat = self.take()
            given = [(v, g) for v, g in zip(flat.views, grads, strict=True) if g is not None]
            if given:
                views, theirs = map(list, zip(*given, strict=True))
                torch._foreach_copy_(views, theirs)
        missing = [v for v, g in zip(flat.views, grads, strict=True) if g is None]
        if missing:
            torch._foreach_zero_(missing)
        flat.present.copy_(torch.tensor([g is not None for g in grads]))
        if weight != 1:
            flat.gradients.mul_(weight)
        return flat

    def write(self, flat: Flat) -> None:
        """Make the contents of `flat` the gradients, but where nobody had one. `flat` is ours from now on."""
        present = [True] * len(self.parameters) if flat.present.all() else flat.present.tolist()
        old = self._shown
        self._show(flat, present)
        if old and not any(p.grad is v for p, v in zip(self.parameters, old.views, strict=True)):
            self.give_back(old)

    def _show(self, flat: Flat, which: list[bool]) -> None:
        self._shown = flat
        for p, view, there in zip(self.parameters, flat.views, which, strict=True):
            if not there:
                continue
            if (p.dtype, p.device) == (view.dtype, view.device):
                p.grad = view
            elif p.grad is None:
                p.grad = view.to(p.device, p.dtype)
            else:
                p.grad.copy_(view)

    def zero(self) -> None:
        """Zero the parameters' gradients."""
        grads = [p.grad for p in self.parameters]
        views = self._shown.views if self._shown else [None] * len(grads)
        theirs = [g for g, v in zip(grads, views, strict=True) if g is not None and g is not v]
        if theirs:
            torch._foreach_zero_(theirs)
        if self._shown:
            self._shown.zero()


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
