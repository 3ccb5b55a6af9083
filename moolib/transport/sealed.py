"""A socket whose bytes travel in sealed records; see `moolib.transport.security` for how they are sealed.

A record is its length (4 bytes, network order) and the sealed bytes. The methods are those of a non-blocking
TLS socket that `moolib.transport.connection` uses; but one thread may send while another receives.
"""

from __future__ import annotations

import socket
import struct

from moolib.log import log
from moolib.transport.security import Cipher
from moolib.transport.wire import WireError

LENGTH = struct.Struct("!I")
RECORD_SIZE = 1 << 18  # bytes of a record before it is sealed, at most
TAG_SIZE = 16  # bytes by which sealing makes it longer
READ_SIZE = 1 << 16  # bytes asked of the system at a time


class SealedSocket:
    """A connected socket, from the moment on when both ends have the keys.

    Args:
        sealer: For what is sent.
        opener: For what is received.
    """

    def __init__(self, sock: socket.socket, sealer: Cipher, opener: Cipher) -> None:
        self._sock, self._sealer, self._opener = sock, sealer, opener
        self._record, self._size = memoryview(b""), 0  # being sent: what is left of it, and what it holds
        self._received = bytearray()  # not yet opened
        self._opened = memoryview(b"")

    def send(self, data: memoryview) -> int:
        """Send a record of the first bytes of `data`; their number, once it is on its way.

        Raises:
            BlockingIOError: The system takes no more now. Call again with the same bytes (and more).
        """
        if not self._record:
            piece = data[:RECORD_SIZE]
            sealed = self._sealer.seal(piece)
            self._record, self._size = memoryview(LENGTH.pack(len(sealed)) + sealed), len(piece)
        while self._record:
            self._record = self._record[self._sock.send(self._record) :]
        return self._size

    def recv_into(self, target: memoryview) -> int:
        """Receive at most `len(target)` bytes; 0 if the other end has closed.

        Raises:
            BlockingIOError: There is nothing now.
            WireError: What came is not what the other end has sent.
        """
        while not self._opened:
            if not self._open():
                part = self._sock.recv(READ_SIZE)
                if not part:
                    return 0
                self._received += part
        count = min(len(target), len(self._opened))
        target[:count] = self._opened[:count]
        self._opened = self._opened[count:]
        return count

    def feed(self, data: memoryview) -> None:
        """Take sealed bytes that were received together with the last plain ones."""
        self._received += data

    def pending(self) -> int:
        """Bytes that have come and wait here."""
        return len(self._opened) + len(self._received)

    def _open(self) -> bool:
        """Open the next record; False if it is not all there."""
        if len(self._received) < LENGTH.size:
            return False
        (size,) = LENGTH.unpack_from(self._received)
        if not TAG_SIZE < size <= RECORD_SIZE + TAG_SIZE:
            raise self._tampered()
        end = LENGTH.size + size
        if len(self._received) < end:
            return False
        try:
            self._opened = memoryview(self._opener.open(self._received[LENGTH.size : end]))
        except ValueError:
            raise self._tampered() from None
        del self._received[:end]
        return True

    def _tampered(self) -> WireError:
        log("error", "what came from %s was changed on its way: closing", self._sock.getpeername())
        return WireError("what came was changed on its way")
