"""Connections of a test's own making, which speak the wire format by hand."""

from __future__ import annotations

import contextlib
import os
import socket

from moolib.transport import security, wire
from moolib.transport.link import MAGIC, VERSION
from moolib.transport.security import Handshake


def attach(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    sock = socket.create_connection((host, int(port)))
    sock.settimeout(10)
    return sock


def frame(kind: int, value=None, call: int = 0, name: str = "") -> bytes:
    return b"".join(bytes(part) for part in wire.encode(kind, call, name, value))


def receive(sock: socket.socket) -> tuple[int, object]:
    data = sock.recv(wire.PREFIX.size, socket.MSG_WAITALL)
    if len(data) < wire.PREFIX.size:
        raise ConnectionError("closed")
    rest = sock.recv(wire.frame_size(data, 1 << 20), socket.MSG_WAITALL)
    got = wire.decode(data, memoryview(bytearray(rest)))
    return got.kind, got.value()


def heard(sock: socket.socket) -> bytes:
    """All that comes until the other end closes."""
    data = b""
    with contextlib.suppress(ConnectionError):
        while part := sock.recv(4096):
            data += part
    return data


def shaken(address: str, name: str = "stranger") -> socket.socket:
    """A connection of our own making to a network without a key, up."""
    sock = attach(address)
    handshake = Handshake(security.load(None, None, None), True, sock)
    sock.sendall(frame(wire.GREET, [MAGIC, VERSION, handshake.opening]))
    kind, (_, _, theirs) = receive(sock)
    assert kind == wire.GREET and handshake.receive_opening(theirs)
    sock.sendall(frame(wire.PROVE, [handshake.proof()]))
    sock.sendall(frame(wire.HELLO, [name, os.urandom(8).hex()]) + frame(wire.WELCOME))
    assert [receive(sock)[0] for _ in range(3)] == [wire.PROVE, wire.HELLO, wire.WELCOME]
    return sock
