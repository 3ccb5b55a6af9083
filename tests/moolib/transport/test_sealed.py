"""Sealed records can neither be read nor changed, left out, repeated or moved."""

import contextlib
import socket
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moolib.transport.sealed import LENGTH, RECORD_SIZE, SealedSocket
from moolib.transport.security import Cipher
from moolib.transport.wire import WireError
from rigs.processes import wait_until
from rigs.rpcs import named, serving

KEY = b"k" * 32


def pair() -> tuple[socket.socket, socket.socket]:
    ends = socket.socketpair()
    for end in ends:
        end.setblocking(False)
    return ends


def records(*messages: bytes) -> list[bytes]:
    """Return the bytes that travel when these messages are sent."""
    ours, theirs = pair()
    with ours, theirs:
        sealed = SealedSocket(ours, Cipher(KEY), Cipher(KEY))
        found = []
        for message in messages:
            assert sealed.send(memoryview(message)) == len(message)
            found.append(theirs.recv(1 << 16))
    return found


def opened(travelled: bytes) -> bytes:
    """Return the messages that arrive."""
    ours, theirs = pair()
    with ours, theirs:
        theirs.sendall(travelled)
        theirs.close()
        sealed, target, data = SealedSocket(ours, Cipher(KEY), Cipher(KEY)), memoryview(bytearray(7)), b""
        while count := sealed.recv_into(target):
            data += target[:count]
        return data


def test_records_arrive_in_order_and_hide_what_they_hold():
    sent = records(b"first secret", b"second secret")
    assert opened(b"".join(sent)) == b"first secretsecond secret"
    assert b"secret" not in b"".join(sent)
    assert sent[0] != records(b"first secret", b"first secret")[1]


def test_changed_missing_repeated_or_moved_records_are_noticed():
    one, two, three = records(b"one", b"two", b"three")
    for travelled in (two, one + three, one + one, two + one, one[:4] + two[4:]):
        with pytest.raises(WireError):
            opened(travelled)
    for i in range(len(one)):
        changed = one[:i] + bytes([one[i] ^ 1]) + one[i + 1 :] + two + three
        if i in (1, 2):  # the length: the record seems to be longer than the data
            assert opened(changed) == b""
        else:
            with pytest.raises(WireError):
                opened(changed)
    for size in (0, 16, RECORD_SIZE + 17, 2**32 - 1):
        with pytest.raises(WireError):
            opened(LENGTH.pack(size) + bytes(100))
    assert opened(one + two[:-1]) == b"one"  # the end is missing: the connection was lost


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 2 * RECORD_SIZE + 9), min_size=1, max_size=4), st.integers(1, 100_000))
def test_a_slow_receiver_gets_every_byte(sizes, read):
    ours, theirs = pair()
    with ours, theirs:
        sender = SealedSocket(ours, Cipher(KEY), Cipher(KEY))
        receiver = SealedSocket(theirs, Cipher(KEY), Cipher(KEY))
        sent = b"".join(bytes([65 + i]) * size for i, size in enumerate(sizes))
        rest, got, target = memoryview(sent), bytearray(), memoryview(bytearray(read))
        while len(got) < len(sent):
            with contextlib.suppress(BlockingIOError):
                while rest:
                    rest = rest[sender.send(rest) :]
            with contextlib.suppress(BlockingIOError):
                got += target[: receiver.recv_into(target)]
        assert got == sent


class Wire:
    """A relay between client and server that records the traffic, and can change it."""

    def __init__(self, address: str) -> None:
        self.heard, self.change = b"", False
        self._server = address.rpartition(":")[0], int(address.rpartition(":")[2])
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=self._relay, args=ends, daemon=True).start()

    def _relay(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self.heard += data
                if self.change:
                    self.change, data = False, data[:-1] + bytes([data[-1] ^ 1])
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()


def test_a_tampered_connection_is_closed_and_logged(tmp_path, monkeypatch):
    (tmp_path / "key").write_text("correct horse battery staple")
    (tmp_path / "key").chmod(0o600)
    said = []
    monkeypatch.setattr(
        "moolib.transport.sealed.log", lambda level, text, *args: said.append((level, text % args))
    )
    server, address = serving("secret-server", key_file=str(tmp_path / "key"))
    wire = Wire(address)
    client = named("secret-client", wire.address, key_file=str(tmp_path / "key"))
    value = "secret " * 100_000  # several records
    assert client.sync("secret-server", "double", value) == 2 * value
    assert len(wire.heard) > 2_000_000 and b"secret" not in wire.heard
    client.set_timeout(0.5)
    wire.change = True
    with pytest.raises(RuntimeError, match="timed out"):
        client.sync("secret-server", "double", 1)
    assert [level for level, _ in said] == ["error"] and "changed on its way" in said[0][1]
    client.set_timeout(20)
    assert client.sync("secret-server", "double", 4) == 8  # over a new connection
    wait_until(lambda: list(server.debug_info()["peers"]) == ["secret-client"])
    wire.close()


def test_a_relay_of_the_proofs_cannot_send_frames_of_its_own(tmp_path):
    (tmp_path / "key").write_text("correct horse battery staple")
    (tmp_path / "key").chmod(0o600)
    server, address = serving("server", key_file=str(tmp_path / "key"))
    host, _, port = address.rpartition(":")
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection((host, int(port))) as sock,
    ):
        client = named("client", f"127.0.0.1:{listener.getsockname()[1]}", key_file=str(tmp_path / "key"))
        victim, _ = listener.accept()
        victim.settimeout(5)
        sock.settimeout(5)
        victim.sendall(sock.recv(4096))  # GREET
        sock.sendall(victim.recv(4096))
        sock.sendall(victim.recv(4096))  # PROVE
        sock.sendall(b"hello" * 20)
        received = b""
        with contextlib.suppress(ConnectionError):
            while part := sock.recv(4096):
                received += part
        assert b"server" not in received
        assert not server.debug_info()["peers"]
        client.close()
