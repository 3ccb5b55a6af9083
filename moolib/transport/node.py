"""The engine of an `Rpc`: a thread with an asyncio loop, connections, and the peers behind them.

A peer is known by its name; its uid distinguishes it from a later peer of the same name. A newcomer with the
name of a connected peer waits until that peer has either shown that it is alive (then the newcomer is
refused) or gone. Addresses given to `connect` are tried forever. Frames for a peer that is not connected wait
until it is or until they are dropped; frames that were sent when a connection broke are lost (a call is made
at most once).
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from moolib.log import log
from moolib.transport import wire
from moolib.transport.address import Address
from moolib.transport.discovery import Discovery
from moolib.transport.endpoints import Endpoints
from moolib.transport.link import MAX_NAME, Link
from moolib.transport.security import Security

LIVE_TIMEOUT = 1.0  # s in which a peer has to show that it is alive when another one claims its name
LIVE_POLL = 0.02  # s
HEARTBEAT = 5.0  # s of silence after which a peer is asked for a sign of life
DEAD_AFTER = 30.0  # s of silence, or of accepting nothing, after which a connection is closed
MAX_GREETING = 1024  # connections that have not said hello; the oldest makes room
CLOSE_TIMEOUT = 2.0  # s to wait for the thread to end


class Events(Protocol):
    """The events of a node, all on the loop thread."""

    def on_frame(self, link: Link, frame: wire.Frame) -> None:
        """A peer sent a frame of an application kind."""

    def on_peer(self, name: str, connected: bool) -> None:
        """A peer came or went."""

    def on_refused(self, reason: str) -> None:
        """A peer refused us."""

    def on_closed(self) -> None:
        """The node has closed."""


class Node:
    """Connections to named peers. Methods are thread-safe except those marked as the loop thread's."""

    def __init__(self, security: Security, limit: int) -> None:
        """Prepare the node; `limit` is the size of the largest frame accepted, in bytes."""
        self.security, self.limit = security, limit
        self.uid = secrets.token_hex(8)
        self.name = self.uid
        self.events: Events
        self.loop = asyncio.new_event_loop()
        self.endpoints = Endpoints(self.loop, security, self._begin)
        self.discovery = Discovery(self, self.endpoints)
        self.peers: dict[str, list[Link]] = {}  # the links that are up, the one in use first
        self._lock = threading.Lock()  # of peers and waiting
        self._waiting: dict[str, dict[int, list[wire.Buffer]]] = {}  # peer -> call -> frame
        self._greeting: dict[Link, None] = {}  # not yet up, oldest first
        self._tasks: set[asyncio.Task[Any]] = set()
        self.refusal = ""  # the last reason for which a peer refused us
        self._thread = threading.Thread(target=self._run, name="moolib-rpc", daemon=True)

    def start(self, events: Events) -> None:
        """Start the thread."""
        self.events = events
        self._thread.start()
        self.call_soon(self._heartbeat)

    def call_soon(self, function: Callable[..., Any], *args: Any) -> None:
        """Run `function(*args)` on the loop thread; do nothing once the node is closed."""
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(function, *args)

    def close(self) -> None:
        """Close all connections and end the thread; bounded in time.

        Takes no lock: garbage collection may call it anywhere.
        """
        self.call_soon(self._close)
        if threading.current_thread() is not self._thread and self._thread.is_alive():
            self._thread.join(CLOSE_TIMEOUT)

    def connect(self, where: Address) -> None:
        """Keep connected to an address."""
        self.call_soon(lambda: self.spawn(self.endpoints.keep_connected(where)))

    def rename(self, name: str) -> None:
        """Take another name, and tell it to the connected peers."""
        with self._lock:
            self.name = name
            links = [link for links in self.peers.values() for link in links]
        for link in links:
            link.rename(name)

    def post(self, peer: str, frame: list[wire.Buffer], call: int = 0) -> bool:
        """Send a frame to a peer. Return False if it is not connected: then only a call's frame waits."""
        while True:
            with self._lock:
                link = next((link for link in self.peers.get(peer, ()) if link.open), None)
                if link is None:
                    if call:
                        self._waiting.setdefault(peer, {})[call] = frame
                    return False
            if link.send(frame):
                return True

    def waiting(self, peer: str) -> bool:
        """Return True if calls wait for a peer."""
        return peer in self._waiting

    def drop(self, peer: str, call: int) -> bool:
        """Drop a waiting frame; return False if it was already sent."""
        with self._lock:
            frames = self._waiting.get(peer, {})
            dropped = frames.pop(call, None) is not None
            if dropped and not frames:
                del self._waiting[peer]
        return dropped

    # The rest belongs to the loop thread.

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine until it ends or the node closes."""
        task = self.loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def on_hello(self, link: Link) -> None:
        """Welcome a peer that has said hello, or refuse it, once its claim to its name is clear."""
        if link.to_self:
            return link.close("connected to oneself")
        if link.name == self.name:
            return link.refuse(f"the name {link.name!r} is the one of a live peer")
        for old in self.peers.get(link.name, ()):
            old.send(wire.encode(wire.PING))
        self._decide(link, time.monotonic())

    def on_up(self, link: Link) -> None:
        """Add a link on which both ends have welcomed each other, and send the frames that wait."""
        self._greeting.pop(link, None)
        with self._lock:
            links = self.peers.setdefault(link.name, [])
            first, known = not links, not links or links[0].uid == link.uid
            if known:
                links.append(link)
                for frame in self._waiting.pop(link.name, {}).values():
                    link.send(frame)
        if not known:
            return link.close("another peer of that name was faster")
        if link.announced != self.name:  # it changed during the handshake
            link.rename(self.name)
        log("verbose", "%s: connected to %s", self.name, link.name)
        if first:
            self.events.on_peer(link.name, True)

    def on_lost(self, link: Link, reason: str) -> None:
        """Remove a link whose connection has ended."""
        self._greeting.pop(link, None)
        if link.refused:
            level = "debug" if link.refused == self.refusal else "error"
            log(level, "%s: refused: %r", self.name, link.refused)
            self.refusal = link.refused
            self.events.on_refused(link.refused)
        if not link.up:
            return log("verbose", "%s: connection ended in its handshake: %s", self.name, reason)
        log("verbose", "%s: connection to %s ended: %s", self.name, link.name, reason)
        self._forget(link)

    def on_frame(self, link: Link, frame: wire.Frame) -> None:
        """Handle a frame of a link that is up.

        Raises:
            WireError: The frame is malformed, or belongs to the handshake.
        """
        if frame.kind == wire.PING:
            link.send(wire.encode(wire.PONG))
        elif frame.kind == wire.RENAME:
            self._on_renamed(link, frame.value())
        elif frame.kind >= wire.CALL and not self.discovery.on_frame(link, frame):
            self.events.on_frame(link, frame)
        elif frame.kind < wire.PING:
            raise wire.WireError(f"frame {frame.kind} after the handshake")

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            self.loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
        finally:
            self.loop.close()

    def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        self.endpoints.close()
        for link in [*self._greeting, *(link for links in list(self.peers.values()) for link in links)]:
            link.close("closed")
        self.events.on_closed()
        self.loop.call_soon(self.loop.stop)  # after the cancelled tasks have ended

    def _begin(self, sock: socket.socket, dialer: bool) -> Link:
        link = Link(self, sock, dialer)
        self._greeting[link] = None
        if len(self._greeting) > MAX_GREETING:
            next(iter(self._greeting)).close("too many connections without a hello")
        return link

    def _decide(self, link: Link, since: float) -> None:
        current = self.peers.get(link.name, [])
        if link.closed.is_set():
            return
        if not current or current[0].uid == link.uid:
            link.welcome()
        elif any(old.heard > since for old in current):
            link.refuse(f"the name {link.name!r} is the one of a live peer")
        elif time.monotonic() < since + LIVE_TIMEOUT:
            self.loop.call_later(LIVE_POLL, self._decide, link, since)
        else:
            for old in list(current):
                old.close("silent, and another peer claims its name")
            link.welcome()

    def _on_renamed(self, link: Link, name: Any) -> None:
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
            raise wire.WireError("malformed name")
        if name == link.name:
            return
        if name == self.name or (name in self.peers and self.peers[name][0].uid != link.uid):
            return link.refuse(f"the name {name!r} is the one of a live peer")
        self._forget(link)
        link.former_name, link.name = link.name, name
        self.on_up(link)

    def _forget(self, link: Link) -> None:
        with self._lock:
            links = self.peers.get(link.name, [])
            if link not in links:
                return
            links.remove(link)
            gone = not links
            if gone:
                del self.peers[link.name]
        if gone:
            self.events.on_peer(link.name, False)

    def _heartbeat(self) -> None:
        for link in [link for links in self.peers.values() for link in links]:
            if link.idle() > DEAD_AFTER:
                link.close("silent for too long")
            elif link.idle() > HEARTBEAT:
                link.send(wire.encode(wire.PING))
        self.loop.call_later(HEARTBEAT, self._heartbeat)
