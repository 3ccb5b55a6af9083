"""Callbacks that do not keep their object alive, so that dropping the last reference of a program ends it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any


def weak(method: Callable[..., Any]) -> Callable[..., Any]:
    """A function that calls the bound method as long as its object lives."""
    reference = weakref.WeakMethod(method)

    def call(*args: Any) -> Any:
        alive = reference()
        return alive(*args) if alive else None

    return call


def repeat(later: Callable[..., None], method: Callable[[], float]) -> None:
    """Call the bound method again and again, as long as its object lives; it returns the seconds in between.

    Args:
        later: `later(seconds, function)` calls the function then.
        method: What to call, first at once.
    """
    reference = weakref.WeakMethod(method)

    def call() -> None:
        alive = reference()
        if alive:
            later(alive(), call)

    later(0.0, call)
