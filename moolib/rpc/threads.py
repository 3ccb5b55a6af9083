"""The threads that run the handlers of all Rpcs of a process: started on demand, at most `set_max_threads`.

They are daemons, so that a handler that never returns cannot keep the program from ending.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from typing import Any

from moolib.log import log

Task = tuple[Callable[..., Any], tuple[Any, ...]]

_tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()  # None ends a thread
_lock = threading.Lock()
_threads = 0
_busy = 0  # tasks queued or running
_limit = max(16, os.cpu_count() or 1)  # may exceed the cores: handlers may wait for calls of their own


def set_max_threads(n: int) -> None:
    """Run at most `n` handlers at a time (default: the number of cores, at least 16).

    Handlers that are already running are not interrupted.

    Raises:
        ValueError: `n` is below 1.
    """
    global _limit, _threads
    if n < 1:
        raise ValueError(f"set_max_threads({n}): at least 1 is needed")
    with _lock:
        _limit = n
        superfluous = max(0, _threads - n)
        _threads -= superfluous
    for _ in range(superfluous):
        _tasks.put(None)


def submit(function: Callable[..., Any], *args: Any) -> None:
    """Run `function(*args)` on one of the threads; log any exception."""
    global _threads, _busy
    with _lock:
        _busy += 1
        start = _busy > _threads and _threads < _limit
        _threads += start
    _tasks.put((function, args))
    if start:
        threading.Thread(target=_work, name="moolib-handler", daemon=True).start()


def _work() -> None:
    global _busy
    while task := _tasks.get():
        function, args = task
        try:
            function(*args)
        except Exception as error:
            log("error", "handler %r failed: %r", function, error)
        del task, function, args  # keep nothing alive while waiting
        with _lock:
            _busy -= 1
