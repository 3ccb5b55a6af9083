"""Callbacks that do not keep their object alive, so that dropping the last reference ends its work."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any


def weak(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls the bound method as long as its object lives, and then does nothing."""
    reference = weakref.WeakMethod(method)

    def call(*args: Any) -> Any:
        alive = reference()
        return alive(*args) if alive else None

    return call


def repeat(call_later: Callable[..., None], method: Callable[[], float]) -> None:
    """Call the bound method repeatedly as long as its object lives.

    Args:
        call_later: `call_later(seconds, function)` schedules a call.
        method: Called immediately; returns the seconds until its next call.
    """
    reference = weakref.WeakMethod(method)

    def call() -> None:
        alive = reference()
        if alive:
            call_later(alive(), call)

    call_later(0.0, call)
