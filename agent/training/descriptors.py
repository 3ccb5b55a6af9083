"""Watches the number of open file descriptors, of which a process may have only so many.

Gloo keeps a descriptor for ever for each connection to its ports that is none of a peer, such as a port
scanner's. When a process has no more, it can neither join a new group nor write a file.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

DIRECTORY = Path("/proc/self/fd")  # on Linux; elsewhere nothing is watched
SUSPICIOUS = 200  # descriptors more than at the start: groups that are formed and given up hold some dozens


class DescriptorWatch:
    """Says when the number has grown by `SUSPICIOUS`, and again each time that it has doubled since."""

    def __init__(self) -> None:
        self._baseline = count()
        self._growth = SUSPICIOUS

    def warning(self) -> str | None:
        """What there is to say now."""
        now = count()
        grown = now - self._baseline
        if grown < self._growth:
            return None
        self._growth = 2 * grown
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return (
            f"{now} file descriptors are open, {grown} more than at the start, {limit} are allowed: does "
            "something else than peers connect to this machine's ports? (docs/security.md)"
        )


def count() -> int:
    """The open descriptors of this process; 0 where that is not known."""
    try:
        return len(os.listdir(DIRECTORY))
    except OSError:
        return 0
