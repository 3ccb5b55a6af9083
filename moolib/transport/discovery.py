"""How peers find each other through a peer that both are connected to.

A looks for B: it asks every peer it is connected to (`@find`). One that is connected to B tells B (`@meet`),
and B tells it (`@here`) where B listens; if that is nowhere A could reach, B first opens a port on the
interface by which it reaches the common peer. The common peer tells A (`@found`), and A connects to B itself,
with the handshake of every connection.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from moolib.future import RpcError
from moolib.log import log
from moolib.transport import address, wire
from moolib.transport.address import Address

if TYPE_CHECKING:
    from moolib.transport.link import Link
    from moolib.transport.node import Node

MIN_PAUSE, MAX_PAUSE = 0.02, 0.5  # s between two searches for a peer
MAX_ADDRESSES = 16  # that are tried for a peer


class Discovery:
    """All of it runs on the loop thread of the node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._seeking: set[str] = set()
        self._dialing: set[str] = set()
        self._steps = {"@find": self._find, "@meet": self._meet, "@here": self._here, "@found": self._found}

    def seek(self, peer: str) -> None:
        """Look for a peer as long as calls wait for it."""
        if peer not in self._seeking and self._node.waiting(peer):
            self._seeking.add(peer)
            self._node.spawn(self._seek(peer))

    def on_frame(self, link: Link, frame: wire.Frame) -> bool:
        """Take a frame that is ours."""
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
        while self._node.waiting(peer):
            for known in list(self._node.peers):
                self._tell(known, "@find", peer)
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE)
        self._seeking.discard(peer)
        self.seek(peer)  # a call may have been made meanwhile

    def _tell(self, peer: str, step: str, *fields: Any) -> None:
        self._node.post(peer, wire.encode(wire.NOTIFY, 0, step, list(fields)))

    def _find(self, link: Link, wanted: str, *_: Any) -> None:
        self._tell(wanted, "@meet", link.name)

    def _meet(self, link: Link, seeker: str, *_: Any) -> None:
        host, endpoints = address.local_host(link.sock), self._node.endpoints
        reachable = [
            Address(host, at.port) for at in endpoints.listening() if at.host in (address.ALL, "::", host)
        ]
        if not reachable and endpoints.can_listen:
            try:
                reachable = [endpoints.listen(Address(host))]
            except RpcError as error:
                log("error", "%s: %s", self._node.name, error)
        self._tell(link.name, "@here", seeker, [str(at) for at in reachable])

    def _here(self, link: Link, seeker: str, addresses: Any = (), *_: Any) -> None:
        self._tell(seeker, "@found", link.name, addresses)

    def _found(self, link: Link, peer: str, addresses: Any = (), *_: Any) -> None:
        if not isinstance(addresses, list):
            raise wire.WireError("malformed @found")
        if self._node.waiting(peer) and peer not in self._dialing:
            self._dialing.add(peer)
            self._node.spawn(self._dial(peer, addresses[:MAX_ADDRESSES]))

    async def _dial(self, peer: str, addresses: list[Any]) -> None:
        try:
            for where in (address.parse(str(text)) for text in addresses):
                link = await self._node.endpoints.dial(where) if not where.path else None
                while link and not link.up and not link.closed.is_set():
                    await asyncio.sleep(MIN_PAUSE)
                if peer in self._node.peers:
                    return
        except RpcError as error:
            log("verbose", "%s: %s is said to be at %s", self._node.name, peer, error)
        finally:
            self._dialing.discard(peer)
