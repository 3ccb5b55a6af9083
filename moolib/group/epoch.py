"""One roster of a group, valid until the broker announces the next."""

from __future__ import annotations

import threading
from collections.abc import Callable
from urllib.parse import quote

from moolib.group.process_group import Rendezvous


class Epoch:
    """One roster of a group.

    Attributes:
        sync_id: The number of the epoch.
        members: The names, in the group's order.
        rank: Our place among the members.
        over: True for good once the next epoch has begun.
        forming: Members are connecting to each other, for which they need the broker.
        failed: A reduction failed; reported to the broker until it announces the next epoch.
    """

    def __init__(
        self, sync_id: int, members: list[str], name: str, publish: Callable[[int, str, bytes], None]
    ) -> None:
        """Begin an epoch.

        Args:
            name: Our own.
            publish: `publish(sync_id, key, value)` brings `value` to `receive` of all other members.
        """
        self.sync_id, self.members = sync_id, members
        self.rank = members.index(name)
        self.over = self.forming = self.failed = False
        self._lock = threading.Lock()
        self._rendezvous: dict[str, Rendezvous] = {}
        self._publish = publish

    @property
    def size(self) -> int:
        """The number of members."""
        return len(self.members)

    def rendezvous(self, channel: str) -> Rendezvous:
        """Return the store with which the members connect for one purpose, such as one accumulator."""
        return self._store(quote(channel, safe="", errors="surrogatepass"))

    def receive(self, key: str, value: bytes) -> None:
        """Store a value that another member published."""
        prefix, _, key = key.partition("/")
        self._store(prefix).receive(key, value)

    def _store(self, prefix: str) -> Rendezvous:
        """Return the store whose keys travel as PREFIX/KEY."""
        with self._lock:
            if prefix not in self._rendezvous:
                self._rendezvous[prefix] = Rendezvous(
                    lambda key, value: self._publish(self.sync_id, f"{prefix}/{key}", value)
                )
                if self.over:
                    self._rendezvous[prefix].close()
            return self._rendezvous[prefix]

    def end(self) -> None:
        """End the epoch: the next one has begun, or we are no longer a member."""
        with self._lock:
            self.over = True
            for rendezvous in self._rendezvous.values():
                rendezvous.close()
