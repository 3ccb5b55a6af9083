"""The sources of a node's connections: the addresses it listens at, and the addresses it dials."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import random
import socket
from collections.abc import Callable
from typing import Any

from moolib.log import log
from moolib.transport import address
from moolib.transport.address import Address
from moolib.transport.link import Link
from moolib.transport.security import Security

DIAL_TIMEOUT = 5.0  # s
MIN_BACKOFF, MAX_BACKOFF = 0.02, 0.5  # s between two attempts to connect
ACCEPT_PAUSE = 0.1  # s, when descriptors or memory have run out
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Endpoints:
    """Listens and dials. Everything except `listen` runs on the loop thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        security: Security,
        begin: Callable[[socket.socket, bool], Link],
    ) -> None:
        """Start without any address.

        Args:
            begin: Makes a link from a connected socket; its second argument is True if we dialled.
        """
        self._loop, self._security, self._begin = loop, security, begin
        self._listeners: dict[Address, socket.socket] = {}
        self._closed = False

    @property
    def can_listen(self) -> bool:
        """False only with a TLS certificate that has no private key."""
        return self._security.listen is not None or self._security.connect is None

    def listening(self) -> list[Address]:
        """Return the bound addresses."""
        return list(self._listeners)

    def listen(self, where: Address) -> Address:
        """Listen at an address immediately, and return the bound one; thread-safe.

        Raises:
            RpcError: The address cannot be bound.
        """
        sock, bound = address.listening_socket(where)
        self._listeners[bound] = sock
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._resume, sock)
        return bound

    def close(self) -> None:
        """Stop listening."""
        self._closed = True
        for bound, sock in self._listeners.items():
            self._loop.remove_reader(sock)
            sock.close()
            if bound.path:
                with contextlib.suppress(OSError):
                    os.unlink(bound.path)

    async def keep_connected(self, where: Address) -> None:
        """Dial an address repeatedly, unless it turns out to be our own."""
        backoff = MIN_BACKOFF
        while True:
            link = await self.dial(where)
            if link is not None:
                await link.closed.wait()
                backoff = MIN_BACKOFF if link.up else MAX_BACKOFF
                if link.to_self:
                    return log("info", "%s: %s is our own address", link.announced, where)
            await asyncio.sleep(backoff * random.uniform(0.5, 1.0))
            backoff = min(2 * backoff, MAX_BACKOFF)

    async def dial(self, where: Address) -> Link | None:
        """Connect to an address once; return None if nobody is there."""
        for family, target in await self._resolve(where):
            try:
                return self._begin(await self._open(family, target), True)
            except (TimeoutError, OSError) as error:
                log("debug", "cannot connect to %s: %s", where, error)
        return None

    async def _open(self, family: int, target: Any) -> socket.socket:
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            await asyncio.wait_for(self._loop.sock_connect(sock, target), DIAL_TIMEOUT)
            if self._security.connect:
                sock = self._security.connect.wrap_socket(sock, do_handshake_on_connect=False)
        except BaseException:  # including cancellation
            sock.close()
            raise
        return sock

    async def _resolve(self, where: Address) -> list[tuple[int, Any]]:
        if where.path:
            return [(socket.AF_UNIX, where.path)]
        try:
            found = await self._loop.getaddrinfo(where.host, where.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            log("verbose", "cannot resolve %s: %s", where, error)
            return []
        return [(family, target) for family, _, _, _, target in found]

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, _ = listener.accept()
            if self._security.listen:
                sock = self._security.listen.wrap_socket(
                    sock, server_side=True, do_handshake_on_connect=False
                )
            self._begin(sock, False)
        except OSError as error:
            if error.errno not in EXHAUSTED:  # the caller has gone
                return
            log("error", "cannot accept a connection: %s", error)
            self._loop.remove_reader(listener)
            self._loop.call_later(ACCEPT_PAUSE, self._resume, listener)

    def _resume(self, listener: socket.socket) -> None:
        if self._closed:
            listener.close()
        else:
            self._loop.add_reader(listener, self._accept, listener)
