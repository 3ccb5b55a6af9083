"""Watch the number of open file descriptors, which the system limits.

Gloo keeps a descriptor forever for each connection to its ports that does not come from a peer, such as a
port scanner's. A process without free descriptors can neither join a new group nor write a file.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

DIRECTORY = Path("/proc/self/fd")  # on Linux; elsewhere nothing is watched
SUSPICIOUS = 200  # descriptors more than at the start; forming and leaving groups takes some dozens


class DescriptorWatch:
    """Warn when the number has grown by `SUSPICIOUS`, and again each time that the growth has doubled."""

    def __init__(self) -> None:
        self._baseline = count()
        self._growth = SUSPICIOUS

    def warning(self) -> str | None:
        """Return the warning that is due now, if any."""
        now = count()
        grown = now - self._baseline
        if grown < self._growth:
            return None
        self._growth = 2 * grown
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return (
            f"{now} file descriptors are open, {grown} more than at the start; the limit is {limit}. Does "
            "something other than peers connect to this machine's ports? (docs/security.md)"
        )


def count() -> int:
    """Return the number of open descriptors of this process; 0 where it is unknown."""
    try:
        return len(os.listdir(DIRECTORY))
    except OSError:
        return 0
