"""Reductions of small values among the members of a group: sums of tensors, or any operation on any object.

All members send their values to the first member, which combines them in the members' order and sends the
same result to everybody. (Gradients are reduced by the Accumulator, over gloo.)
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from moolib.future import Future, RpcError
from moolib.rpc.rpc import Rpc
from moolib.weak import weak

Operation = Callable[[Any, Any], Any]


class AllReduce(Future[Any]):
    """The result of `Group.all_reduce`, the same on all members."""


@dataclass
class _Collection:
    """The values of one reduction that the first member has received."""

    values: dict[int, Any] = field(default_factory=dict)  # rank -> value
    answers: dict[int, Callable[[Any], None]] = field(default_factory=dict)
    arrived: dict[int, float] = field(default_factory=dict)  # when, in seconds
    started: tuple[int, Operation, float] | None = (
        None  # size, operation and time-out, once we take part ourselves
    )


class Reductions:
    """The reductions of one group that are in progress."""

    def __init__(self, rpc: Rpc, group: str) -> None:
        self._rpc = rpc
        self._function = f"group.reduce/{group}"
        self._lock = threading.Lock()
        self._pending: dict[str, AllReduce] = {}
        self._collected: dict[tuple[int, str], _Collection] = {}
        rpc.define_deferred(self._function, weak(self._collect))

    def start(
        self, sync_id: int, members: list[str], name: str, data: Any, op: Operation | None, timeout: float
    ) -> AllReduce:
        """Start a reduction; see `Group.all_reduce`.

        Raises:
            RpcError: A reduction of that name is in progress.
        """
        future = AllReduce()
        with self._lock:
            if name in self._pending:
                raise RpcError(f"all_reduce {name!r} is already under way")
            self._pending[name] = future
        future.add_done_callback(lambda _: self._forget(name, future))
        failure = RpcError("AllReduce operation timed out")
        self._rpc.messages.call_later(timeout, future.set_exception, failure)
        rank = members.index(self._rpc.get_name())
        if rank > 0:
            answer = functools.partial(_finish, future)
            self._rpc.async_callback(members[0], self._function, answer, sync_id, name, rank, data)
        else:
            with self._lock:
                entry = self._collected.setdefault((sync_id, name), _Collection())
                entry.started = (len(members), op or _add, timeout)
            future.add_done_callback(lambda _: self._withdraw((sync_id, name), entry))
            self._collect(functools.partial(_finish, future), sync_id, name, 0, _copy(data))
        return future

    def change_epoch(self, sync_id: int) -> None:
        """End all reductions of previous epochs."""
        with self._lock:
            pending = list(self._pending.values())
            self._collected = {key: entry for key, entry in self._collected.items() if key[0] == sync_id}
        for future in pending:
            future.set_exception(RpcError("AllReduce operation cancelled due to a group change"))

    def close(self) -> None:
        """End all reductions and take part in no more."""
        self._rpc.undefine(self._function)
        self.change_epoch(0)

    def _forget(self, name: str, future: AllReduce) -> None:
        with self._lock:
            if self._pending.get(name) is future:
                del self._pending[name]

    def _withdraw(self, key: tuple[int, str], entry: _Collection) -> None:
        """As the first member, stop waiting: values that arrive from now on are too late."""
        with self._lock:
            if self._collected.get(key) is entry:
                del self._collected[key]

    def _collect(self, answer: Callable[[Any], None], sync_id: int, name: str, rank: int, value: Any) -> None:
        """As the first member, add a value; after the last one, combine them and answer everybody."""
        with self._lock:
            entry = self._collected.setdefault((sync_id, name), _Collection())
            entry.values[rank], entry.answers[rank] = value, answer
            entry.arrived[rank] = time.monotonic()
            if entry.started is None:
                return
            size, op, timeout = entry.started
            for old in [r for r, then in entry.arrived.items() if time.monotonic() - then > timeout]:
                del entry.values[old], entry.answers[old], entry.arrived[old]
            if len(entry.values) < size:
                return
            del self._collected[sync_id, name]
        try:
            result: Any = [functools.reduce(op, [entry.values[r] for r in range(size)])]
        except Exception as error:  # of the program's `op`
            result = f"{type(error).__name__}: {error}"
        for answer in entry.answers.values():
            answer(result)


def _finish(future: AllReduce, answer: Any, error: BaseException | None = None) -> None:
    """Finish with the first member's answer: [result], or an error message."""
    if error is not None:
        future.set_exception(error)
    elif isinstance(answer, str):
        future.set_exception(RpcError(f"AllReduce operation failed: {answer}"))
    else:
        future.set_result(answer[0])


def _add(a: Any, b: Any) -> Any:
    """Return the sum of two nested structures of tensors, arrays and numbers."""
    if isinstance(a, dict):
        if not isinstance(b, dict) or a.keys() != b.keys():
            raise ValueError(
                f"keys differ between members: {list(a)}, {b if not isinstance(b, dict) else list(b)}"
            )
        return {key: _add(a[key], b[key]) for key in a}
    if isinstance(a, (list, tuple)):
        if not isinstance(b, (list, tuple)) or len(a) != len(b):
            raise ValueError("structures differ between members")
        return type(a)(_add(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, torch.Tensor) and (not isinstance(b, torch.Tensor) or a.shape != b.shape):
        raise ValueError("shapes differ between members")
    return a + b


def _copy(value: Any) -> Any:
    """Return a nested structure with copies of all tensors and arrays: the caller may change its own."""
    if isinstance(value, dict):
        return {key: _copy(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_copy(child) for child in value]
    if type(value) is tuple:
        return tuple(_copy(child) for child in value)
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    return value.copy() if isinstance(value, np.ndarray) else value
