"""A timer of activities: where a peer's wall-clock time goes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

ACTIVITIES = ("acting", "waiting", "learning", "reducing")
"""The policy chooses actions; waiting for robots; losses, gradients, updates; waiting for the group."""


class Timer:
    """Adds up the seconds of each activity; time in a nested activity counts for the inner one only."""

    def __init__(self) -> None:
        self._seconds = dict.fromkeys(ACTIVITIES, 0.0)
        self._running: list[str] = []
        self._since = self._begun = time.perf_counter()

    @contextmanager
    def __call__(self, activity: str) -> Iterator[None]:
        """Count the time inside the `with` for an activity."""
        self._switch()
        self._running.append(activity)
        try:
            yield
        finally:
            self._switch()
            self._running.pop()

    def add(self, activity: str, seconds: float) -> None:
        """Add what another thread spent beside the activities of the main thread."""
        self._seconds[activity] += seconds

    def shares(self) -> dict[str, float]:
        """Return each activity's share of the time since the last call, in [0, 1]."""
        self._switch()
        elapsed = max(self._since - self._begun, 1e-9)
        shares = {activity: seconds / elapsed for activity, seconds in self._seconds.items()}
        self._seconds = dict.fromkeys(ACTIVITIES, 0.0)
        self._begun = self._since
        return shares

    def _switch(self) -> None:
        now = time.perf_counter()
        if self._running:
            self._seconds[self._running[-1]] += now - self._since
        self._since = now
