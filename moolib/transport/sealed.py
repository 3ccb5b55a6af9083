"""A socket whose bytes travel in sealed records; see `moolib.transport.security` for the ciphers.

A record is its length (4 bytes, network order) and the sealed bytes. The methods are those that
`moolib.transport.connection` uses of a non-blocking TLS socket, but one thread may send while another
receives.
"""

from __future__ import annotations

import socket
import struct

from moolib.log import log
from moolib.transport.security import Cipher
from moolib.transport.wire import WireError

LENGTH = struct.Struct("!I")
RECORD_SIZE = 1 << 18  # bytes of a record before it is sealed, at most
TAG_SIZE = 16  # bytes that sealing adds
READ_SIZE = 1 << 16  # bytes requested from the system at a time


class SealedSocket:
    """A connected socket whose two ends have the keys.

    Args:
        sealer: The cipher of the sent records.
        opener: The cipher of the received records.
    """

    def __init__(self, sock: socket.socket, sealer: Cipher, opener: Cipher) -> None:
        self._sock, self._sealer, self._opener = sock, sealer, opener
        self._record, self._size = memoryview(b""), 0  # being sent: its rest, and the bytes that it holds
        self._received = bytearray()  # not yet opened
        self._opened = memoryview(b"")

    def send(self, data: memoryview) -> int:
        """Send a record with the first bytes of `data`, and return their number.

        Raises:
            BlockingIOError: The system accepts no more now. Call again with the same bytes (and more).
        """
        if not self._record:
            piece = data[:RECORD_SIZE]
            sealed = self._sealer.seal(piece)
            self._record, self._size = memoryview(LENGTH.pack(len(sealed)) + sealed), len(piece)
        while self._record:
            self._record = self._record[self._sock.send(self._record) :]
        return self._size

    def recv_into(self, target: memoryview) -> int:
        """Receive at most `len(target)` bytes and return their number; 0 if the other end has closed.

        Raises:
            BlockingIOError: Nothing has arrived yet.
            WireError: The record is not the next one that the other end sealed.
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
        """Take sealed bytes that were received together with the last plain bytes."""
        self._received += data

    def pending(self) -> int:
        """Return the number of received bytes that wait here."""
        return len(self._opened) + len(self._received)

    def _open(self) -> bool:
        """Open the next record; return False if it has not arrived completely."""
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
        log("error", "data from %s was changed on its way: closing", self._sock.getpeername())
        return WireError("the data was changed on its way")
