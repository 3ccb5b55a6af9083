"""How peers find each other through a peer that both are connected to.

A looks for B: it asks every peer that it is connected to (`@find`). One that is connected to B asks B
(`@meet`), and B answers with the addresses at which it listens (`@here`); if A could reach none of them, B
first opens a port on the interface by which it reaches the common peer. The common peer forwards the answer
to A (`@found`), and A connects to B itself, with the handshake of every connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

from moolib.future import RpcError
from moolib.log import log
from moolib.transport import address, wire
from moolib.transport.address import Address
from moolib.transport.endpoints import Endpoints
from moolib.transport.link import Link

MIN_PAUSE, MAX_PAUSE = 0.02, 0.5  # s between two searches for a peer
MAX_ADDRESSES = 16  # tried for one peer


class Network(Protocol):
    """The part of a node that discovery uses."""

    name: str
    peers: dict[str, list[Link]]

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine until it ends or the node closes."""

    def post(self, peer: str, frame: list[wire.Buffer]) -> bool:
        """Send a frame to a connected peer; return False if it is not connected."""

    def waiting(self, peer: str) -> bool:
        """Return True if calls wait for a peer."""


class Discovery:
    """Searches for peers, and helps others to search. Everything runs on the loop thread of the node."""

    def __init__(self, network: Network, endpoints: Endpoints) -> None:
        self._network, self._endpoints = network, endpoints
        self._seeking: set[str] = set()
        self._dialing: set[str] = set()
        self._steps = {"@find": self._find, "@meet": self._meet, "@here": self._here, "@found": self._found}

    def seek(self, peer: str) -> None:
        """Look for a peer as long as calls wait for it."""
        if peer not in self._seeking and self._network.waiting(peer):
            self._seeking.add(peer)
            self._network.spawn(self._seek(peer))

    def on_frame(self, link: Link, frame: wire.Frame) -> bool:
        """Handle a frame of discovery; return False for any other frame.

        Raises:
            WireError: The frame is malformed.
        """
        step = self._steps.get(frame.name)
        if step is None or frame.kind != wire.NOTIFY:
            return False
        fields = frame.value()
        if not isinstance(fields, list) or not fields or not isinstance(fields[0], str):
            raise wire.WireError(f"malformed {frame.name}")
        step(link, *fields[:2])
        return True

    async def _seek(self, peer: str) -> None:
        pause = MIN_PAUSE
        while self._network.waiting(peer):
            for known in list(self._network.peers):
                self._tell(known, "@find", peer)
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE)
        self._seeking.discard(peer)
        self.seek(peer)  # a call may have been made in the meantime

    def _tell(self, peer: str, step: str, *fields: Any) -> None:
        self._network.post(peer, wire.encode(wire.NOTIFY, 0, step, list(fields)))

    def _find(self, link: Link, wanted: str, *_: Any) -> None:
        self._tell(wanted, "@meet", link.name)

    def _meet(self, link: Link, seeker: str, *_: Any) -> None:
        host, endpoints = address.local_host(link.sock), self._endpoints
        reachable = [
            Address(host, at.port) for at in endpoints.listening() if at.host in (address.ALL, "::", host)
        ]
        if not reachable and endpoints.can_listen:
            try:
                reachable = [endpoints.listen(Address(host))]
            except RpcError as error:
                log("error", "%s: %s", self._network.name, error)
        self._tell(link.name, "@here", seeker, [str(at) for at in reachable])

    def _here(self, link: Link, seeker: str, addresses: Any = (), *_: Any) -> None:
        self._tell(seeker, "@found", link.name, addresses)

    def _found(self, link: Link, peer: str, addresses: Any = (), *_: Any) -> None:
        if not isinstance(addresses, list):
            raise wire.WireError("malformed @found")
        if self._network.waiting(peer) and peer not in self._dialing:
            self._dialing.add(peer)
            self._network.spawn(self._dial(peer, addresses[:MAX_ADDRESSES]))

    async def _dial(self, peer: str, addresses: list[Any]) -> None:
        try:
            for where in (address.parse(str(text)) for text in addresses):
                link = await self._endpoints.dial(where) if not where.path else None
                while link and not link.up and not link.closed.is_set():
                    await asyncio.sleep(MIN_PAUSE)
                if peer in self._network.peers:
                    return
        except RpcError as error:
            log("verbose", "%s: wrong address of %s: %s", self._network.name, peer, error)
        finally:
            self._dialing.discard(peer)
