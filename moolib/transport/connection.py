"""One framed, non-blocking connection on an asyncio loop: plain, sealed with a shared key, or TLS.

Sockets are used directly: a caller's thread writes to an idle socket itself (no hop through the loop), the
loop sends the part that the system did not take, and large frames are received where their tensors will live.
With TLS, only the loop thread touches the socket, since two threads must not share an SSL object.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from moolib.transport import wire
from moolib.transport.sealed import SealedSocket
from moolib.transport.security import Cipher

BUFFER_SIZE = 1 << 16  # bytes; larger frames get memory of their own
READS_PER_TURN = 16  # before other connections have their turn
_WAIT = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Connection:
    """Frames in, frames out. All callbacks run on the loop thread; only `send` may be called from others."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        limit: int,
        on_open: Callable[[], None],
        on_frame: Callable[[wire.Frame], None],
        on_lost: Callable[[str], None],
    ) -> None:
        """Take over a connected socket (a wrapped one has not yet done its TLS handshake).

        Args:
            limit: Bytes of a frame's body and payload that are accepted; may be changed later (`self.limit`).
            on_lost: Called once, with the reason.
        """
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock, self.limit = sock, limit
        self.heard = time.monotonic()  # when the last bytes came
        self.progress = self.heard  # when the last bytes went, or nothing waited to be sent
        self.closed = False
        self._loop, self._on_open, self._on_frame, self._on_lost = loop, on_open, on_frame, on_lost
        self._tls = isinstance(sock, ssl.SSLSocket)
        self._stream: Any = sock  # sends and receives: the socket, or a SealedSocket around it
        self._layered = self._tls  # the stream may hold received bytes: `pending()`
        self._thread = threading.get_ident()
        self._lock = threading.Lock()  # of the next two
        self._out: deque[memoryview] = deque()
        self._writing = False  # the loop is watching for the socket to take more
        self._buffer, self._filled = memoryview(bytearray(BUFFER_SIZE)), 0
        self._large: tuple[bytes, memoryview] | None = None  # prefix and rest of a large frame being received
        self._large_filled = 0
        if self._tls:
            loop.add_reader(sock, self._shake_hands)
            self._shake_hands()
        else:
            loop.add_reader(sock, self._on_readable)
            loop.call_soon(self._opened)

    def send(self, buffers: list[wire.Buffer]) -> bool:
        """Send a frame, in order; never blocks. Return False if the connection is closed."""
        with self._lock:
            if self.closed:
                return False
            if not self._out:
                self.progress = time.monotonic()
            self._out.extend(map(memoryview, buffers))
            if self._writing:
                return True
            if (not self._tls or threading.get_ident() == self._thread) and self._flush():
                return True
            self._writing = True
        try:
            self._loop.call_soon_threadsafe(self._start_writing)
        except RuntimeError:  # the loop has ended: the program is closing its Rpc
            return False
        return True

    def seal(self, sealer: Cipher, opener: Cipher) -> None:
        """Seal everything sent from now on, and open everything received; call it from `on_frame`.

        Raises:
            WireError: Frames still wait to be sent in clear.
        """
        with self._lock:
            if self._out:  # a few hundred bytes, which every system accepts immediately
                raise wire.WireError("handshake: the other end takes nothing")
            self._stream, self._layered = SealedSocket(self.sock, sealer, opener), True

    def close(self, reason: str) -> None:
        """Close now; bytes that the system has accepted are still delivered."""
        with self._lock:
            if self.closed:
                return
            self.closed = True
            self._out.clear()
        self._loop.remove_reader(self.sock)
        self._loop.remove_writer(self.sock)
        self.sock.close()
        self._on_lost(reason)

    def stalled(self, now: float) -> float:
        """Return the seconds since the other end last took any of the bytes that wait; 0 if none wait."""
        with self._lock:
            return now - self.progress if self._out else 0.0

    def _opened(self) -> None:
        if not self.closed:
            self._on_open()

    def _shake_hands(self) -> None:
        self._loop.remove_writer(self.sock)
        try:
            self.sock.do_handshake()  # type: ignore[attr-defined]
        except ssl.SSLWantReadError:
            return
        except ssl.SSLWantWriteError:
            self._loop.add_writer(self.sock, self._shake_hands)
            return
        except (OSError, AttributeError) as error:  # AttributeError: reset before it was wrapped
            self._loop.call_soon(self.close, f"TLS handshake failed: {error}")
            return
        self._loop.add_reader(self.sock, self._on_readable)
        self._loop.call_soon(self._opened)
        self._loop.call_soon(self._on_readable)  # for bytes that came with the end of the handshake

    def _flush(self) -> bool:
        """Write until everything is written, or return False when the socket is full.

        Errors are left to the reader.
        """
        try:
            while self._out:
                sent = self._stream.send(self._out[0])
                self.progress = time.monotonic()
                if sent == len(self._out[0]):
                    self._out.popleft()
                else:
                    self._out[0] = self._out[0][sent:]
        except _WAIT:
            return False
        except OSError:
            self._out.clear()
        return True

    def _start_writing(self) -> None:
        if not self.closed:
            self._loop.add_writer(self.sock, self._on_writable)
            self._on_writable()

    def _on_writable(self) -> None:
        with self._lock:
            if self._flush():
                self._writing = False
                self._loop.remove_writer(self.sock)

    def _on_readable(self) -> None:
        reason = ""
        reads = 0
        try:
            while not self.closed and (reads < READS_PER_TURN or (self._layered and self._stream.pending())):
                reads += 1
                target = self._large[1][self._large_filled :] if self._large else self._buffer[self._filled :]
                count = self._stream.recv_into(target)
                if not count:
                    reason = "the other end closed the connection"
                    break
                self.heard = time.monotonic()
                self._received(count)
                if count < len(target) and not self._layered and not self._large:
                    return
        except _WAIT:
            return
        except (OSError, MemoryError, wire.WireError) as error:
            reason = str(error)
        if reason:
            self.close(reason)

    def _received(self, count: int) -> None:
        if self._large:
            self._large_filled += count
            prefix, rest = self._large
            if self._large_filled == len(rest):
                self._large = None
                self._on_frame(wire.decode(prefix, rest))
            return
        self._filled += count
        start = 0
        while not self.closed and self._filled - start >= wire.PREFIX.size:
            body = start + wire.PREFIX.size
            prefix = bytes(self._buffer[start:body])
            size = wire.frame_size(prefix, self.limit)
            if body + size > self._filled:
                if wire.PREFIX.size + size > BUFFER_SIZE:
                    self._begin_large(prefix, size, self._buffer[body : self._filled])
                    start = self._filled
                break
            start = body + size
            stream = self._stream
            self._on_frame(wire.decode(prefix, memoryview(bytearray(self._buffer[body:start]))))
            if self._stream is not stream:  # the bytes that follow are sealed
                self._stream.feed(self._buffer[start : self._filled])
                self._filled = start
        self._buffer[: self._filled - start] = self._buffer[start : self._filled]
        self._filled -= start

    def _begin_large(self, prefix: bytes, size: int, begin: memoryview) -> None:
        rest = np.empty(size, np.uint8).data
        rest[: len(begin)] = begin
        self._large, self._large_filled = (prefix, rest), len(begin)
