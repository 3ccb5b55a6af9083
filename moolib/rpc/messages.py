"""The internal interface of an `Rpc` to the broker and the groups: one-way messages and timers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moolib.future import RpcError
from moolib.rpc.handlers import Handlers
from moolib.transport import address, wire
from moolib.transport.node import Node


class Messages:
    """Messages that are handled on the loop thread, in the order in which they were sent. Thread-safe."""

    def __init__(self, node: Node, handlers: Handlers) -> None:
        self._node, self._handlers = node, handlers

    def define(self, name: str, function: Callable[..., Any]) -> None:
        """Offer `function(peer, *args)`, run on the loop thread; it must not block.

        Raises:
            RpcError: The name is taken.
        """
        self._handlers.define_inline(name, function)

    def send(self, peer: str, function: str, *args: Any) -> bool:
        """Call a function without an answer; return False, and drop it, if the peer is not connected."""
        return self._node.post(peer, wire.encode(wire.NOTIFY, 0, function, [list(args), {}]))

    def on_peer_change(self, callback: Callable[[str, bool], None]) -> None:
        """Call `callback(peer, connected)` on the loop thread whenever a peer comes or goes."""
        self._handlers.watch_peers(callback)

    def call_later(self, seconds: float, function: Callable[..., Any], *args: Any) -> None:
        """Run `function(*args)` on the loop thread after `seconds`."""
        self._node.call_soon(self._node.loop.call_later, seconds, function, *args)

    def ask_for_life(self, peer: str) -> None:
        """Let a connected peer send a sign of life."""
        self._node.post(peer, wire.encode(wire.PING))

    def heard(self, peer: str) -> float | None:
        """Return the time (`time.monotonic`) of the last sign of life of a peer; None if not connected."""
        return max((link.heard for link in self._node.peers.get(peer, [])), default=None)

    def local_host(self, peer: str) -> str:
        """Return the local IP address of the connection to a peer.

        Raises:
            RpcError: The peer is not connected.
        """
        links = self._node.peers.get(peer)
        if not links:
            raise RpcError(f"peer {peer!r} is not connected")
        return address.local_host(links[0].sock)
