"""Calls that a program takes one by one, or in batches, when it is ready for them.

A batch of n calls becomes one: their arguments are stacked leaf by leaf along a new first dimension (tensors
and arrays; other leaves become tuples of n values), and row i of the returned value goes to caller i. So
`f(x[64, 3])` serves 64 peers that called `f(x[3])`.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from moolib.future import Future, RpcError
from moolib.rpc import threads
from moolib.rpc.handlers import Args, Handler, Kwargs, Request, RpcDeferredReturn, run

Item = tuple[RpcDeferredReturn, Args, Kwargs]


class Queue:
    """Calls that wait to be taken: `await queue`, `queue.get(timeout)`, or `queue.result(timeout)`.

    Each returns `(return_callback, args, kwargs)`, the oldest call first. Several threads may wait at once.
    """

    def __init__(
        self, batch_size: int | None = None, device: Any = None, dynamic_batching: bool = False
    ) -> None:
        """Create a queue; see `Rpc.define_queue` for the arguments.

        Raises:
            RpcError: `batch_size` is below 1.
        """
        if batch_size is not None and batch_size < 1:
            raise RpcError(f"batch_size {batch_size}: at least 1 is needed")
        self._most = batch_size if batch_size is not None else (sys.maxsize if dynamic_batching else 1)
        self._least = 1 if dynamic_batching else self._most
        self._batching = dynamic_batching or batch_size is not None
        self._device = device
        self._lock = threading.Lock()
        self._calls: deque[Item] = deque()
        self._takers: deque[Future[Item]] = deque()

    def get(self, timeout: float | None = None) -> Item:
        """Return the next call or batch of calls, waiting for at most `timeout` seconds.

        Raises:
            RpcError: `The operation timed out`.
        """
        future = self._take()
        try:
            return future.result(timeout)
        except BaseException:  # including KeyboardInterrupt
            if future.cancel():
                raise
            return future.result()

    result = get

    def __await__(self) -> Generator[Any, None, Item]:
        return self._take().__await__()

    def size(self) -> int:
        """Return the number of calls that wait."""
        return len(self._calls)

    def _take(self) -> Future[Item]:
        future: Future[Item] = Future()
        with self._lock:
            self._takers.append(future)
        self._match()
        return future

    def _put(self, item: Item) -> None:
        with self._lock:
            self._calls.append(item)
        self._match()

    def _match(self) -> None:
        """Give waiting calls to waiting takers."""
        while True:
            with self._lock:
                while self._takers and self._takers[0].done():  # cancelled
                    self._takers.popleft()
                if not self._takers or len(self._calls) < self._least:
                    return
                taker = self._takers.popleft()
                calls = [self._calls.popleft() for _ in range(min(len(self._calls), self._most))]
            try:
                item = _batch(calls, self._device) if self._batching else calls[0]
            except Exception as error:
                for ret, _, _ in calls:
                    ret.error(f"calls cannot be stacked: {error}")
                with self._lock:
                    self._takers.appendleft(taker)
                continue
            if not taker.set_result(item):
                with self._lock:
                    self._calls.extendleft(reversed(calls))


def queued(queue: Queue) -> Handler:
    """Return a handler that puts calls into a queue."""

    def handle(ret: RpcDeferredReturn, request: Request) -> None:
        args, kwargs = request.arguments()
        if not queue._batching:
            args, kwargs = _to_device((args, kwargs), queue._device)
        queue._put((ret, args, kwargs))

    return lambda ret, request: run(ret, lambda: handle(ret, request), lambda _: None)


def in_thread(function: Callable[..., Any], device: Any, deferred: bool) -> Handler:
    """Return a handler that calls `function(*args)`, or `function(ret, *args)` if deferred, on a thread."""

    def handle(ret: RpcDeferredReturn, request: Request) -> None:
        run(ret, lambda: serve(ret, *_to_device(request.arguments(), device)), lambda _: None)

    serve = _server(function, deferred)
    return lambda ret, request: threads.submit(handle, ret, request)


def batched(function: Callable[..., Any], batch_size: int, device: Any, deferred: bool) -> Handler:
    """Return a handler that does the same, once for every `batch_size` calls."""
    queue = Queue(batch_size, device)
    serve = _server(function, deferred)

    def next_batch(future: Future[Item]) -> None:
        threads.submit(serve, *future.result())
        queue._take().add_done_callback(next_batch)

    queue._take().add_done_callback(next_batch)
    return queued(queue)


def _server(
    function: Callable[..., Any], deferred: bool
) -> Callable[[RpcDeferredReturn, Args, Kwargs], None]:
    def serve(ret: RpcDeferredReturn, args: Args, kwargs: Kwargs) -> None:
        if deferred:
            run(ret, lambda: function(ret, *args, **kwargs), lambda _: None)
        else:
            run(ret, lambda: function(*args, **kwargs), ret)

    return serve


class _BatchReturn(RpcDeferredReturn):
    """Answers all calls of a batch: with the rows of a value, or with one error."""

    def __init__(self, returns: list[RpcDeferredReturn]) -> None:
        self._returns = returns

    def __call__(self, value: Any = None) -> None:
        try:
            rows = [_row(value, i, len(self._returns)) for i in range(len(self._returns))]
        except (TypeError, ValueError) as error:
            self.error(f"the answer to a batch of {len(self._returns)} calls has no such rows: {error}")
            raise
        for ret, row in zip(self._returns, rows, strict=True):
            ret(row)

    def error(self, text: str) -> None:
        for ret in self._returns:
            ret.error(text)


def _batch(calls: list[Item], device: Any) -> Item:
    """Return one call that stands for all.

    Raises:
        TypeError, ValueError, RuntimeError: Their arguments do not fit together.
    """
    args, kwargs = _stack([(args, kwargs) for _, args, kwargs in calls])
    args, kwargs = _to_device((args, kwargs), device)
    return _BatchReturn([ret for ret, _, _ in calls]), args, kwargs


def _stack(values: list[Any]) -> Any:
    """Return the n values as one, stacked leaf by leaf.

    Raises:
        TypeError, ValueError, RuntimeError: Structures, shapes or dtypes differ.
    """
    first = values[0]
    if len({type(value) for value in values}) > 1:
        return tuple(values)
    if isinstance(first, dict):
        if any(value.keys() != first.keys() for value in values):
            raise ValueError(f"keys differ: {sorted({str(sorted(value)) for value in values})}")
        return {key: _stack([value[key] for value in values]) for key in first}
    if isinstance(first, (list, tuple)):
        if any(len(value) != len(first) for value in values):
            raise ValueError(f"lengths differ: {sorted({len(value) for value in values})}")
        return type(first)(_stack(list(items)) for items in zip(*values, strict=True))
    if isinstance(first, np.ndarray):
        return np.stack(values)
    if _is_tensor(first):
        return sys.modules["torch"].stack(values)
    return tuple(values)


def _row(value: Any, index: int, count: int) -> Any:
    """Return the share of caller `index` of `count`.

    None goes to everybody. Tensors and arrays are split into rows, tuples and lists of `count` plain values
    into their elements.

    Raises:
        TypeError, ValueError: There is no such row.
    """
    if value is None:
        return None
    if isinstance(value, np.ndarray) or _is_tensor(value):
        if not value.ndim or len(value) != count:
            raise ValueError(f"shape {tuple(value.shape)}")
        return value[index]
    if isinstance(value, dict):
        return {key: _row(item, index, count) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        if len(value) == count and not any(_has_rows(item) for item in value):
            return value[index]
        rows = [_row(item, index, count) for item in value]
        return tuple(rows) if isinstance(value, tuple) else rows
    raise TypeError(f"{type(value).__name__} {value!r}")


def _has_rows(value: Any) -> bool:
    return isinstance(value, (dict, list, tuple, np.ndarray)) or value is None or _is_tensor(value)


def _to_device(value: Any, device: Any) -> Any:
    """Return the value with its tensors on a device (None: unchanged)."""
    if device is None:
        return value
    if isinstance(value, dict):
        return {key: _to_device(item, device) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_to_device(item, device) for item in value)
    return value.to(device) if _is_tensor(value) else value


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)
