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
FORMS = "HOST:PORT, [V6]:PORT, *:PORT, PORT or ipc://PATH"
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


class AddressError(RpcError):
    """An address that has none of the forms above; `reason` says in a few words what is wrong with it."""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(f"address {text!r}: {reason}; expected {FORMS}")
        self.reason = reason


def parse(text: str | int, listening: bool = False) -> Address:
    """Return the address that a user wrote.

    Raises:
        AddressError: It has none of the forms above.
    """
    rest = str(text)
    if rest.startswith("ipc://"):
        if rest == "ipc://":
            raise AddressError(rest, "no path")
        return Address("", 0, rest.removeprefix("ipc://"))
    rest = rest.removeprefix("tcp://")
    host, colon, port = rest.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not port or port.endswith("]") or _is_v6(rest) or not (colon or port.isdigit()):
        raise AddressError(str(text), "no port")
    if ":" in host and not bracketed:
        raise AddressError(str(text), f"{host!r} is not a host")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise AddressError(str(text), f"{port!r} is not a port")
    host = host[1:-1] if bracketed else host
    if host in ("", "*"):
        host = ALL if listening and colon else LOOPBACK
    return Address(host, int(port))


def _is_v6(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).version == 6
    except ValueError:
        return False


def check_reachable(address: Address, timeout: float) -> None:
    """Check that somebody listens at an address.

    Raises:
        RpcError: Nobody does, or there is no answer within `timeout` seconds; the message is the reason.
    """
    try:
        if address.path:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
                sock.settimeout(timeout)
                sock.connect(address.path)
        else:
            socket.create_connection((address.host, address.port), timeout).close()
    except TimeoutError:
        raise RpcError("no answer") from None
    except (OSError, UnicodeError) as error:  # UnicodeError: not a host name
        raise RpcError((getattr(error, "strerror", None) or str(error)).lower()) from None


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
        return sock, Address(_own_host(sock), sock.getsockname()[1])
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
    return _own_host(sock) if sock.family != socket.AF_UNIX else LOOPBACK


def _own_host(sock: socket.socket) -> str:
    """Return the IP address that a socket is bound to; a link-local one with its interface."""
    host, _, *v6 = sock.getsockname()
    return f"{host}%{socket.if_indextoname(v6[1])}" if v6 and v6[1] else str(host)


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
