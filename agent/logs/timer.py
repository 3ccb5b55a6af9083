"""The shares of a peer's wall time by activity."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

ACTIVITIES = ("acting", "waiting", "learning", "reducing")
"""Choosing actions; waiting for robots or a gradient; gradients and updates; waiting for the group."""


class Timer:
    """Add up the seconds of each activity; one inside another counts for the inner one only."""

    def __init__(self) -> None:
        self._seconds = dict.fromkeys(ACTIVITIES, 0.0)
        self._running: list[str] = []
        self._since = self._began = time.perf_counter()

    @contextmanager
    def __call__(self, activity: str) -> Iterator[None]:
        """Count the time inside the `with` block for `activity`; for the main thread."""
        self._switch()
        self._running.append(activity)
        try:
            yield
        finally:
            self._switch()
            self._running.pop()

    def add(self, activity: str, seconds: float) -> None:
        """Add seconds that another thread spent at the same time."""
        self._seconds[activity] += seconds

    def shares(self) -> dict[str, float]:
        """Return the share of each activity, in [0, 1], of the time since the last call."""
        self._switch()
        elapsed = max(self._since - self._began, 1e-9)
        shares = {activity: seconds / elapsed for activity, seconds in self._seconds.items()}
        self._seconds = dict.fromkeys(ACTIVITIES, 0.0)
        self._began = self._since
        return shares

    def _switch(self) -> None:
        now = time.perf_counter()
        if self._running:
            self._seconds[self._running[-1]] += now - self._since
        self._since = now
