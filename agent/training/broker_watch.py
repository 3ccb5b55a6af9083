"""Tell the user that the broker has gone, and that it is back."""

from __future__ import annotations

from collections.abc import Callable

import moolib

PATIENCE = 3.0  # s of silence; a restarted broker is back earlier


class BrokerWatch:
    """Say once that the broker no longer answers, and once that it does again."""

    def __init__(self, group: moolib.Group, address: str | None, say: Callable[[str], None]) -> None:
        """Watch the broker of a group.

        Args:
            group: This peer's group.
            address: The broker's address; None for one in this process, which cannot be lost.
            say: Prints a line for the user.
        """
        self._group, self._address, self._say = group, address, say
        self._lost = False

    def check(self) -> None:
        """Say what has changed since the last call."""
        if self._address is None:
            return
        seconds = self._group.broker_lost_for()
        if not self._lost and seconds > PATIENCE:
            self._lost = True
            self._say(
                f"lost the broker at {self._address}; training goes on with the members that are here, but "
                "nobody can join until a broker listens there again"
            )
        elif self._lost and seconds == 0:
            self._lost = False
            self._say(f"the broker at {self._address} is back")
