"""The handshake of a connection, and the peer at its other end once the link is up.

In each direction the frames are GREET (magic, version, opening of a `Handshake`), PROVE (proof that the
sender has the key), HELLO (name, uid) and WELCOME, or REFUSE with the reason. The dialling end proves
first; neither reveals its name before the other has proved itself, and with a key everything after PROVE is
sealed. GREET to HELLO must complete within 2 s. Until the link is up it accepts only small frames of these
kinds.
"""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Any, Protocol

from moolib.transport import wire
from moolib.transport.connection import Connection
from moolib.transport.security import Handshake, Security

MAGIC = "moolib"
VERSION = 2  # of frames and handshake; any other version is refused
HELLO_TIMEOUT = 2.0  # s, from the connection to HELLO
GREETING_LIMIT = 4096  # bytes of a frame until the link is up
MAX_NAME = 256  # characters


class LinkOwner(Protocol):
    """The part of a node that its links use. All methods run on the loop thread."""

    loop: asyncio.AbstractEventLoop
    security: Security
    limit: int  # bytes of a frame once the link is up
    name: str
    uid: str

    def on_hello(self, link: Link) -> None:
        """Welcome or refuse a peer that has said hello, now or later."""

    def on_up(self, link: Link) -> None:
        """Note that both ends have welcomed each other."""

    def on_frame(self, link: Link, frame: wire.Frame) -> None:
        """Handle a frame of a link that is up."""

    def on_lost(self, link: Link, reason: str) -> None:
        """Note that the connection has ended."""


class Link:
    """A connection to a peer. Everything except `send` runs on the loop thread of its owner."""

    def __init__(self, owner: LinkOwner, sock: socket.socket, dialer: bool) -> None:
        self.dialer = dialer
        self.name = self.uid = ""  # the peer's, from its HELLO on
        self.former_name = ""  # the peer's name before its last renaming
        self.announced = ""  # our name, as the peer knows it
        self.up = False
        self.refused = ""  # the reason, if the other end refused us
        self.closed = asyncio.Event()
        self._owner = owner
        self._handshake = Handshake(owner.security, dialer, sock)
        self._expects = wire.GREET
        self._welcomes = 0  # ours and the peer's
        self._deadline = owner.loop.call_later(HELLO_TIMEOUT, self.close, "no hello in time")
        self._connection = Connection(
            owner.loop, sock, GREETING_LIMIT, self._greet, self._on_frame, self._on_lost
        )

    @property
    def sock(self) -> socket.socket:
        """The socket, for its addresses."""
        return self._connection.sock

    @property
    def open(self) -> bool:
        """True while frames are accepted."""
        return not self._connection.closed

    @property
    def heard(self) -> float:
        """The time (`time.monotonic`) at which the peer last sent anything."""
        return self._connection.heard

    @property
    def to_self(self) -> bool:
        """True if the other end is our own node."""
        return self.uid == self._owner.uid

    def send(self, buffers: list[wire.Buffer]) -> bool:
        """Send a frame; thread-safe, never blocks. Return False if the link is closed."""
        return self._connection.send(buffers)

    def rename(self, name: str) -> None:
        """Tell the peer our new name."""
        self.announced = name
        self.send(wire.encode(wire.RENAME, value=name))

    def close(self, reason: str) -> None:
        """Close the connection and notify the owner."""
        self._connection.close(reason)

    def idle(self) -> float:
        """Return the seconds for which the peer has sent nothing, or accepted none of the waiting frames."""
        now = time.monotonic()
        return max(now - self.heard, self._connection.stalled(now))

    def welcome(self) -> None:
        """Let the peer in."""
        self.send(wire.encode(wire.WELCOME))
        self._on_welcome()

    def refuse(self, reason: str) -> None:
        """Send the peer away."""
        self.send(wire.encode(wire.REFUSE, value=reason))
        self.close(f"refused: {reason}")

    def _greet(self) -> None:
        self.send(wire.encode(wire.GREET, value=[MAGIC, VERSION, self._handshake.opening]))

    def _on_lost(self, reason: str) -> None:
        self._deadline.cancel()
        self.closed.set()
        self._owner.on_lost(self, reason)

    def _on_frame(self, frame: wire.Frame) -> None:
        if frame.kind == wire.REFUSE:
            self.refused = str(frame.value())[:GREETING_LIMIT]
            self.close(f"refused: {self.refused!r}")
        elif self.up:
            self._owner.on_frame(self, frame)
        elif frame.kind != self._expects:
            raise wire.WireError(f"handshake: frame {frame.kind} instead of {self._expects}")
        elif frame.kind == wire.GREET:
            self._on_greet(*_fields(frame, str, int, bytes))
        elif frame.kind == wire.PROVE:
            self._on_prove(*_fields(frame, bytes))
        elif frame.kind == wire.HELLO:
            self._on_hello(*_fields(frame, str, str))
        else:
            self._expects = wire.REFUSE
            self._on_welcome()

    def _on_greet(self, magic: str, version: int, opening: bytes) -> None:
        if magic != MAGIC:
            raise wire.WireError("handshake: not a moolib peer")
        if version != VERSION:
            return self.refuse(f"protocol version {version} here meets version {VERSION}")
        if not self._handshake.receive_opening(opening):
            raise wire.WireError("handshake: malformed greeting")
        self._expects = wire.PROVE
        if self.dialer:
            self._prove()

    def _prove(self) -> None:
        self.send(wire.encode(wire.PROVE, value=[self._handshake.proof()]))

    def _on_prove(self, proof: bytes) -> None:
        if not self._handshake.verify(proof):
            return self.refuse("the keys differ")
        self._expects = wire.HELLO
        if not self.dialer:
            self._prove()
        if self._handshake.seals:
            self._connection.seal(*self._handshake.ciphers())
        self.announced = self._owner.name
        self.send(wire.encode(wire.HELLO, value=[self.announced, self._owner.uid]))

    def _on_hello(self, name: str, uid: str) -> None:
        if not 0 < len(name) <= MAX_NAME or not 0 < len(uid) <= MAX_NAME:
            raise wire.WireError("handshake: name out of bounds")
        self._expects = wire.WELCOME
        self._deadline.cancel()
        self._deadline = self._owner.loop.call_later(HELLO_TIMEOUT, self.close, "no welcome in time")
        self.name, self.uid = name, uid
        self._owner.on_hello(self)

    def _on_welcome(self) -> None:
        self._welcomes += 1
        if self._welcomes == 2:
            self._deadline.cancel()
            self._connection.limit = self._owner.limit
            self.up = True
            self._owner.on_up(self)


def _fields(frame: wire.Frame, *types: type) -> list[Any]:
    """Return the fields of a handshake frame, which must have exactly these types."""
    value = frame.value()
    if not isinstance(value, list) or [type(field) for field in value] != list(types):
        raise wire.WireError(f"handshake: malformed frame {frame.kind}")
    return value
