"""Batches of a fixed size, collected from nested structures of tensors.

`stack` adds one item at a time along a new dimension; `cat` appends along an existing dimension, and the
items beyond a full batch begin the next one. Every input is copied immediately into the batch being filled,
so the caller may reuse its memory, and gradients flow back to the inputs.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Iterator
from typing import Any

import numpy as np
import torch

from moolib.future import Future

Path = tuple[Any, ...]


def _name(path: Path) -> str:
    """Return a path such as `('obs', 0)` as users read it: `obs.0`."""
    return ".".join(map(str, path)) or "the input"


def _leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the leaves of a nested dict, list or tuple with their paths; NumPy arrays become tensors."""
    if isinstance(value, dict):
        for key, child in value.items():
            yield from _leaves(child, (*path, key))
    elif isinstance(value, (list, tuple)):
        for index, child in enumerate(value):
            yield from _leaves(child, (*path, index))
    elif isinstance(value, np.ndarray):
        yield path, torch.from_numpy(value)
    else:
        yield path, value


def _rebuild(template: Any, leaves: dict[Path, Any], path: Path = ()) -> Any:
    """Return a structure like `template` that holds `leaves`."""
    if isinstance(template, dict):
        return {key: _rebuild(child, leaves, (*path, key)) for key, child in template.items()}
    if isinstance(template, (list, tuple)):
        children = [_rebuild(child, leaves, (*path, i)) for i, child in enumerate(template)]
        return type(template)(*children) if hasattr(template, "_fields") else type(template)(children)
    return leaves[path]


class Batcher:
    """Makes batches of `size` items from single items (`stack`) or from smaller or larger batches (`cat`).

    Args:
        size: Items per batch, at least 1.
        device: The device of the batches.
        dim: The batch dimension; negative ones count from the end (of the batch, not of the item).

    Raises:
        ValueError: `size` is less than 1.
    """

    def __init__(self, size: int, device: str | torch.device = "cpu", dim: int = 0) -> None:
        if size < 1:
            raise ValueError(f"Batcher: size must be at least 1, not {size}")
        self._size = size
        self._device = torch.device(device)
        self._dim = dim
        self._lock = threading.Lock()
        self._ready: deque[Any] = deque()
        self._waiting: deque[Future[Any]] = deque()
        self._kind = ""  # "stack" or "cat", once known
        self._template: Any = None
        self._batch: dict[Path, Any] = {}  # the batch being filled
        self._filled = 0  # items in it

    def stack(self, value: Any) -> None:
        """Add one item.

        Args:
            value: Nested dict, list or tuple of tensors `[...]`; a batch has `size` of them along a new
                dimension `dim`. Of values that are not tensors, the first item's is kept.

        Raises:
            ValueError: Keys, shapes or dtypes differ from the batch's, or `cat` was used before.
        """
        with self._lock:
            leaves = self._checked("stack", value)
            self._fill(value, leaves, None, 1)

    def cat(self, value: Any) -> None:
        """Append the items of a batch of any length.

        Args:
            value: Nested dict, list or tuple of tensors that all have the same length along `dim`.

        Raises:
            ValueError: Keys, shapes, lengths or dtypes do not fit, or `stack` was used before.
        """
        with self._lock:
            leaves = self._checked("cat", value)
            length = self._length(leaves)
            start = 0
            while start < length:
                count = min(length - start, self._size - self._filled)
                self._fill(value, leaves, start, count)
                start += count

    def empty(self) -> bool:
        """Return True if no finished batch is waiting."""
        return not self._ready

    def size(self) -> int:
        """Return the number of finished batches that are waiting."""
        return len(self._ready)

    def get(self) -> Any:
        """Return the oldest finished batch, waiting for it if necessary. `await batcher` does the same."""
        return self._next().result()

    def __await__(self) -> Generator[Any, None, Any]:
        return self._next().__await__()

    def _next(self) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            if self._ready:
                future.set_result(self._ready.popleft())
            else:
                self._waiting.append(future)
        return future

    def _checked(self, kind: str, value: Any) -> dict[Path, Any]:
        """Return the input's leaves; raise ValueError if they do not fit the batch being filled."""
        if self._kind not in ("", kind):
            raise ValueError(f"Batcher: {kind} after {self._kind}; one Batcher does either, not both")
        leaves = dict(_leaves(value))
        if kind == "cat":
            self._length(leaves)
        if self._filled:
            missing = self._batch.keys() - leaves.keys()
            extra = leaves.keys() - self._batch.keys()
            if missing or extra:
                what = [f"{_name(p)} is missing" for p in missing] + [f"{_name(p)} is new" for p in extra]
                raise ValueError(
                    f"Batcher: the input's keys differ from the batch's: {', '.join(sorted(what))}"
                )
        for path, leaf in leaves.items():
            self._check_leaf(kind, path, leaf)
        self._kind = kind
        return leaves

    def _check_leaf(self, kind: str, path: Path, leaf: Any) -> None:
        if not isinstance(leaf, torch.Tensor):
            if self._filled and isinstance(self._batch[path], torch.Tensor):
                raise ValueError(f"Batcher: {_name(path)} is {type(leaf).__name__}, the batch's is a tensor")
            return
        rank = leaf.dim() + (kind == "stack")
        if not -rank <= self._dim < rank:
            raise ValueError(f"Batcher: {_name(path)} has shape {list(leaf.shape)}: no dimension {self._dim}")
        if not self._filled:
            return
        batch = self._batch[path]
        if not isinstance(batch, torch.Tensor):
            raise ValueError(f"Batcher: {_name(path)} is a tensor, the batch's is {type(batch).__name__}")
        if leaf.dtype != batch.dtype:
            raise ValueError(f"Batcher: {_name(path)} has dtype {leaf.dtype}, the batch {batch.dtype}")
        if self._batch_shape(kind, leaf) != list(batch.shape):
            fits = list(batch.shape)
            raise ValueError(f"Batcher: {_name(path)} has shape {list(leaf.shape)}, a batch is {fits}")

    def _length(self, leaves: dict[Path, Any]) -> int:
        """Return the length along `dim` that all tensors of an input of `cat` share."""
        lengths = {}
        for path, leaf in leaves.items():
            if isinstance(leaf, torch.Tensor):
                if not -leaf.dim() <= self._dim < leaf.dim():
                    shape = list(leaf.shape)
                    raise ValueError(f"Batcher: {_name(path)} has shape {shape}: no dimension {self._dim}")
                lengths[_name(path)] = leaf.shape[self._dim]
        if not lengths:
            raise ValueError("Batcher: cat needs at least one tensor")
        if len(set(lengths.values())) > 1:
            what = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise ValueError(f"Batcher: lengths along dimension {self._dim} differ: {what}")
        return next(iter(lengths.values()))

    def _batch_shape(self, kind: str, leaf: torch.Tensor) -> list[int]:
        shape = list(leaf.shape)
        if kind == "stack":
            shape.insert(self._dim % (leaf.dim() + 1), self._size)
        else:
            shape[self._dim] = self._size
        return shape

    def _fill(self, value: Any, leaves: dict[Path, Any], start: int | None, count: int) -> None:
        """Copy one item (`start` None) or `count` items from `start` on into the batch; finish it if full."""
        if not self._filled:
            self._template = value
            self._batch = {
                path: torch.empty(self._batch_shape(self._kind, leaf), dtype=leaf.dtype, device=self._device)
                if isinstance(leaf, torch.Tensor)
                else leaf
                for path, leaf in leaves.items()
            }
        for path, leaf in leaves.items():
            if isinstance(leaf, torch.Tensor):
                if start is None:
                    self._batch[path].select(self._dim, self._filled).copy_(leaf)
                else:
                    part = leaf.narrow(self._dim, start, count)
                    self._batch[path].narrow(self._dim, self._filled, count).copy_(part)
        self._filled += count
        if self._filled == self._size:
            self._finish(_rebuild(self._template, self._batch))

    def _finish(self, batch: Any) -> None:
        """Give a full batch to the first waiter, or keep it for later."""
        self._template, self._batch, self._filled = None, {}, 0
        while self._waiting:
            if self._waiting.popleft().set_result(batch):
                return
        self._ready.append(batch)
