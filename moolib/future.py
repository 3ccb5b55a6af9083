"""Results that arrive later, for threads (`result`, `wait`) and for asyncio (`await`)."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import threading
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")


class RpcError(RuntimeError):
    """A call, a group operation or an environment failed; the message says which one and why."""


E = TypeVar("E", bound=BaseException)


def fresh(error: E) -> E:
    """Return a copy of an error without its traceback and its cause.

    A traceback refers to the frames that the error passed through, and so to everything that their functions
    use. Whoever stores an error stores and raises such copies: otherwise the error would keep its owner alive
    until garbage collection, and each time that it is raised would add to its traceback.
    """
    try:
        other = copy.copy(error)
    except Exception:  # its class takes other arguments than `args`
        other = type(error).__new__(type(error), *error.args)
        other.__dict__.update(error.__dict__)
    if hasattr(error, "__notes__"):
        other.__notes__ = list(error.__notes__)
    return other


class Future(Generic[T]):
    """The result of an operation that may still be running.

    Thread-safe; the result may be read any number of times. `set_result`, `set_exception` and
    `add_done_callback` are internal: only the code that runs the operation calls them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future[T]], None]] = []

    def done(self) -> bool:
        """Return True once there is a result or an error."""
        return self._done

    def wait(self, timeout: float | None = None) -> None:
        """Block until done, for at most `timeout` seconds.

        Raises:
            RpcError: `The operation timed out`.
        """
        running = threading.Lock()  # wakes faster than a threading.Condition
        running.acquire()

        def finish(_: Future[T]) -> None:
            running.release()

        with self._lock:
            if self._done:
                return
            self._callbacks.insert(0, finish)
        if running.acquire(timeout=-1 if timeout is None else max(0.0, timeout)):
            return
        with self._lock:
            if self._done:
                return
            self._callbacks.remove(finish)
        raise RpcError("The operation timed out")

    def result(self, timeout: float | None = None) -> T:
        """Return the result, waiting for it for at most `timeout` seconds.

        Raises:
            RpcError: `The operation timed out`, `The operation was cancelled`, or the operation's own error,
                each time a new exception.
        """
        self.wait(timeout)
        if self._error is not None:
            raise fresh(self._error)
        return cast(T, self._value)

    def exception(self) -> BaseException | None:
        """Return a copy of the error, or None if there is none (yet)."""
        return fresh(self._error) if self._error is not None else None

    def cancel(self) -> bool:
        """Give up: all waiters get `The operation was cancelled`. Return False if already done."""
        return self.set_exception(RpcError("The operation was cancelled"))

    def __await__(self) -> Generator[Any, None, T]:
        if not self._done:
            loop = asyncio.get_running_loop()
            waiter = loop.create_future()

            def finish() -> None:
                if not waiter.done():
                    waiter.set_result(None)

            def wake(_: Future[T]) -> None:
                with contextlib.suppress(RuntimeError):  # the loop may have ended in the meantime
                    loop.call_soon_threadsafe(finish)

            self.add_done_callback(wake)
            try:
                yield from waiter
            except asyncio.CancelledError:
                self.cancel()
                raise
        return self.result()

    # Internal: for the code that runs the operation.

    def set_result(self, value: T) -> bool:
        """Finish with a result. Return False, and change nothing, if already done."""
        return self._finish(value, None)

    def set_exception(self, error: BaseException) -> bool:
        """Finish with an error. Return False, and change nothing, if already done."""
        return self._finish(None, error)

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Call `callback(self)` once done: immediately if already done, else on the finishing thread."""
        with self._lock:
            if not self._done:
                self._callbacks.append(callback)
                return
        callback(self)

    def _finish(self, value: T | None, error: BaseException | None) -> bool:
        with self._lock:
            if self._done:
                return False
            self._value, self._error, self._done = value, error, True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)
        return True
