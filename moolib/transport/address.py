"""Addresses of peers: `host:port`, `[v6]:port`, `*:port`, `:port` or `port`, each also with the prefix
`tcp://`, and `ipc://path`.

When listening, `*:port` and `:port` mean all IPv4 interfaces and a bare `port` the loopback; port 0 is any
free one. When connecting, all three mean the loopback.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
from typing import NamedTuple

from moolib.future import RpcError

BACKLOG = 1024  # connections that the system keeps for us until we accept them
LOOPBACK = "127.0.0.1"
ALL = "0.0.0.0"


class Address(NamedTuple):
    """A place to listen or connect: a host and a port, or a path in the file system."""

    host: str
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        if self.path:
            return f"ipc://{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse(text: str | int, listening: bool = False) -> Address:
    """Return the address that a user wrote.

    Raises:
        RpcError: It has none of the forms above.
    """
    rest = str(text)
    if rest.startswith("ipc://") and len(rest) > len("ipc://"):
        return Address("", 0, rest.removeprefix("ipc://"))
    host, colon, port = rest.removeprefix("tcp://").rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not port.isascii() or not port.isdigit() or int(port) > 65535 or (":" in host and not bracketed):
        raise RpcError(f"address {text!r}: expected HOST:PORT, [V6]:PORT, *:PORT, PORT or ipc://PATH")
    host = host[1:-1] if bracketed else host
    if host in ("", "*"):
        host = ALL if listening and colon else LOOPBACK
    return Address(host, int(port))


def listening_socket(address: Address) -> tuple[socket.socket, Address]:
    """Return a bound, listening, non-blocking socket and its actual address.

    Raises:
        RpcError: The address cannot be bound, for example because it is taken.
    """
    try:
        if address.path:
            return _listen_at_path(address)
        family, _, _, _, where = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            # Allow an immediate restart; a port that is in use is still refused.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind(where)
            sock.listen(BACKLOG)
        except OSError:
            sock.close()
            raise
        sock.setblocking(False)
        return sock, Address(*sock.getsockname()[:2])
    except (OSError, UnicodeError) as error:
        raise RpcError(f"cannot listen at {address}: {getattr(error, 'strerror', None) or error}") from error


def _listen_at_path(address: Address) -> tuple[socket.socket, Address]:
    """Listen for connections of our own user; take over a path that a dead process left behind."""
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with probe, contextlib.suppress(FileNotFoundError):
        try:
            probe.connect(address.path)
            raise OSError(0, "Address already in use")
        except ConnectionRefusedError:
            os.unlink(address.path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(address.path)
        os.chmod(address.path, 0o600)
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock, address


def local_host(sock: socket.socket) -> str:
    """Return the local IP address of a connection; for `ipc://`, the loopback."""
    return str(sock.getsockname()[0]) if sock.family != socket.AF_UNIX else LOOPBACK


def check_own(host: str) -> None:
    """Check that `host` is an IP address of this machine.

    Raises:
        ValueError: It is not.
    """
    try:
        family = socket.AF_INET6 if ipaddress.ip_address(host).version == 6 else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.bind((host, 0))
    except (OSError, ValueError):
        raise ValueError(f"{host!r} is not an IP address of this machine") from None
