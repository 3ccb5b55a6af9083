"""Strangers learn nothing and harm nothing: keys, TLS, garbage, half-open connections, floods."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import socket
import struct
import time

import msgpack
import pytest

import moolib
from moolib import Rpc, RpcError, wire
from moolib.link import MAGIC, VERSION
from moolib.security import KEY_FILE_VARIABLE, Handshake
from rigs.processes import wait_until
from rigs.rpcs import ANY, named, self_signed, serving


@pytest.fixture
def keys(tmp_path):
    paths = []
    for i in range(2):
        paths.append(str(tmp_path / f"key{i}"))
        (tmp_path / f"key{i}").write_bytes(os.urandom(32).hex().encode() + b"\n")
        (tmp_path / f"key{i}").chmod(0o600)
    return paths


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    """Two pairs (certificate, key)."""
    return [self_signed(tmp_path_factory.mktemp(f"tls{i}")) for i in range(2)]


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


def shaken(address: str, server: Rpc, name: str = "stranger") -> socket.socket:
    """A connection of our own making to a network without a key, up."""
    sock = attach(address)
    handshake = Handshake(server._node.security, True, sock)
    sock.sendall(frame(wire.GREET, [MAGIC, VERSION, handshake.opening]))
    kind, (_, _, theirs) = receive(sock)
    assert kind == wire.GREET and handshake.hear(theirs)
    sock.sendall(frame(wire.PROVE, [handshake.proof()]))
    sock.sendall(frame(wire.HELLO, [name, os.urandom(8).hex()]) + frame(wire.WELCOME))
    assert [receive(sock)[0] for _ in range(3)] == [wire.PROVE, wire.HELLO, wire.WELCOME]
    return sock


def test_a_shared_key(keys):
    _server, address = serving(key_file=keys[0])
    assert named("client", address, key_file=keys[0]).sync("server", "double", 3) == 6
    for other in ({"key_file": keys[1]}, {}):
        with pytest.raises(RuntimeError, match="keys differ"):
            named("other", address, **other).sync("server", "double", 3)


def test_the_key_file_may_come_from_the_environment(keys, monkeypatch):
    monkeypatch.setenv(KEY_FILE_VARIABLE, keys[0])
    _server, address = serving()
    monkeypatch.delenv(KEY_FILE_VARIABLE)
    assert named("client", address, key_file=keys[0]).sync("server", "double", 3) == 6


def test_files_that_cannot_be_used(tmp_path, certificates):
    empty, short, none = tmp_path / "empty", tmp_path / "short", tmp_path / "none"
    empty.write_text(" \n")
    short.write_text("too short\n")
    for wrong, message in (
        ({"key_file": str(none)}, f"cannot read key file {none}: No such file or directory"),
        ({"key_file": str(tmp_path)}, f"cannot read key file {tmp_path}: Is a directory"),
        ({"key_file": str(empty)}, f"key file {empty} has a key of 0 bytes, at least 16 are needed"),
        ({"key_file": str(short)}, f"key file {short} has a key of 9 bytes, at least 16 are needed"),
        ({"tls_key": certificates[0]["tls_key"]}, "tls_key without tls_cert"),
        ({"tls_cert": str(empty)}, f"cannot use tls_cert={empty}"),
        (
            {"tls_cert": certificates[0]["tls_cert"], "tls_key": certificates[1]["tls_key"]},
            "KEY_VALUES_MISMATCH",
        ),
    ):
        with pytest.raises(RpcError) as error:
            Rpc(**wrong)
        assert message in str(error.value) and "\n" not in str(error.value)


def test_a_key_that_others_can_read_is_told(keys, caplog, monkeypatch):
    os.chmod(keys[0], 0o644)
    monkeypatch.setattr("moolib.log._target", logging.getLogger("keys"))
    Rpc(key_file=keys[0])
    assert [r.getMessage() for r in caplog.records] == [
        f"key file {keys[0]} can be read by other users: chmod 600 {keys[0]}"
    ]


def test_without_the_key_nobody_learns_a_name(keys):
    server, address = serving("secret-server", key_file=keys[0])
    client = named("secret-client", address, key_file=keys[0])
    client.sync("secret-server", "double", 1)
    sock, nonce = attach(address), os.urandom(32)
    sock.sendall(frame(wire.GREET, [MAGIC, VERSION, nonce]) + frame(wire.PROVE, [os.urandom(32)]))
    said = heard(sock)
    assert b"secret" not in said and b"keys differ" in said
    for early in (
        frame(wire.HELLO, ["x", "y"]),
        frame(wire.CALL, [[], {}], 1, "double"),
        frame(wire.WELCOME),
    ):
        sock = attach(address)
        sock.sendall(frame(wire.GREET, [MAGIC, VERSION, nonce]) + early)
        assert b"secret" not in heard(sock)
    assert list(server.debug_info()["peers"]) == ["secret-client"]


def test_a_listener_without_the_key_learns_no_name(keys):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = named("secret-client", f"127.0.0.1:{listener.getsockname()[1]}", key_file=keys[0])
        sock, _ = listener.accept()
        sock.settimeout(10)
        _, _ = receive(sock)
        sock.sendall(frame(wire.GREET, [MAGIC, VERSION, os.urandom(32)]))
        kind, (proof,) = receive(sock)
        assert kind == wire.PROVE
        sock.sendall(frame(wire.PROVE, [proof]))  # the dialler's own proof is not a listener's
        assert b"secret" not in heard(sock)
        client._close()


def test_another_version_is_told_so():
    _server, address = serving()
    sock = attach(address)
    sock.sendall(frame(wire.GREET, [MAGIC, VERSION + 1, os.urandom(32)]))
    assert f"version {VERSION + 1} here meets version {VERSION}".encode() in heard(sock)


def test_tls(certificates, keys):
    one, other = certificates
    _server, address = serving(**one, key_file=keys[0])
    assert named("client", address, **one, key_file=keys[0]).sync("server", "double", 3) == 6
    reader = named("reader", address, tls_cert=one["tls_cert"], key_file=keys[0])
    big = bytes(3 << 20)
    assert reader.sync("server", "echo", big)[0][0] == big
    with pytest.raises(RpcError, match="needs tls_key"):
        reader.listen(ANY)
    with pytest.raises(RuntimeError, match="keys differ"):
        named("keyless", address, **one).sync("server", "double", 3)
    for stranger in (
        named("plain", address, key_file=keys[0]),
        named("other", address, **other, key_file=keys[0]),
    ):
        stranger.set_timeout(0.3)
        with pytest.raises(RuntimeError, match="timed out"):
            stranger.sync("server", "double", 3)


def test_tls_hides_what_is_said(certificates):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = named("secret-client", f"127.0.0.1:{listener.getsockname()[1]}", **certificates[0])
        sock, _ = listener.accept()
        sock.settimeout(10)
        assert sock.recv(3)[:1] == b"\x16"  # a TLS handshake record
        client._close()


def test_strangers_may_only_send_small_frames(caplog):
    _server, address = serving()
    moolib.set_logging(logging.getLogger("strangers"))
    moolib.set_log_level("verbose")
    try:
        with caplog.at_level(logging.DEBUG):
            sock = attach(address)
            sock.sendall(wire.PREFIX.pack(wire.GREET, 0, 5000, 0, 0))
            heard(sock)
            wait_until(lambda: "frame out of bounds: kind 1, name 0, body 5000" in caplog.text)
    finally:
        moolib.set_logging(logging.getLogger("moolib"))
        moolib.set_log_level("error")


def test_who_says_no_hello_is_dropped_after_two_seconds():
    _server, address = serving()
    silent, slow = attach(address), attach(address)
    for byte in frame(wire.GREET, [MAGIC, VERSION, os.urandom(32)])[:8]:
        slow.sendall(bytes([byte]))
        time.sleep(0.1)
    assert heard(silent) and heard(slow)  # our greeting, and the end


@pytest.mark.parametrize("seed", range(3))
def test_garbage_before_the_handshake_is_harmless(seed):
    server, address = serving()
    rng = random.Random(seed)
    descriptors = len(os.listdir("/proc/self/fd"))
    for _ in range(60):
        sock = attach(address)
        start = rng.choice([b"", frame(wire.GREET, [MAGIC, VERSION, os.urandom(32)])])
        with contextlib.suppress(ConnectionError):
            sock.sendall(start + rng.randbytes(rng.randrange(1, 3000)))
            if rng.random() < 0.5:  # end with a reset
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
    # None of the 60 stays open; a few others may come and go with what earlier tests left to the collector.
    wait_until(lambda: len(os.listdir("/proc/self/fd")) < descriptors + 10)
    assert named("client", address).sync("server", "double", 3) == 6
    assert list(server.debug_info()["peers"]) in ([], ["client"])


@pytest.mark.parametrize("seed", range(3))
def test_garbage_of_a_peer_is_harmless(seed):
    server, address = serving(max_message=1 << 20)
    rng = random.Random(seed)
    for i in range(40):
        sock = shaken(address, server, f"stranger{i}")
        body = rng.choice(
            [rng.randbytes(40), msgpack.packb([[1, msgpack.ExtType(rng.randrange(8), rng.randbytes(9))], {}])]
        )
        name = rng.choice([b"double", b"echo", b"@find", b"@meet", b"@here", b"@found", rng.randbytes(5)])
        head = wire.PREFIX.pack(rng.randrange(1, 14), len(name), len(body), 0, rng.randrange(5))
        with contextlib.suppress(ConnectionError):
            sock.sendall(head + name + body + rng.randbytes(rng.randrange(200)))
        sock.close()
    assert named("client", address).sync("server", "double", 3) == 6
    wait_until(lambda: list(server.debug_info()["peers"]) in ([], ["client"]))


def test_claims_of_huge_messages_cost_nothing():
    server, address = serving(max_message=1 << 20)
    for body, payload in ((1 << 27, 0), (10, 1 << 33), (10, (1 << 64) - 1), (1 << 20, 1)):
        sock = shaken(address, server)
        sock.sendall(wire.PREFIX.pack(wire.CALL, 0, body, payload, 1))
        assert heard(sock) == b""
        wait_until(lambda: not server.debug_info()["peers"])
    assert named("client", address).sync("server", "double", 3) == 6


def test_a_flood_does_not_keep_real_peers_out():
    _server, address = serving()
    flood = []
    for i in range(500):
        flood.append(attach(address))
        if i % 2:
            flood[-1].sendall(os.urandom(100))
    clients = [named(f"client{i}", address) for i in range(20)]
    futures = [client.async_("server", "double", i) for i, client in enumerate(clients)]
    assert [future.result(10) for future in futures] == [2 * i for i in range(20)]
    for sock in flood:
        sock.close()


def test_a_peer_that_reads_nothing_blocks_nobody():
    server, address = serving()
    stranger = shaken(address, server)
    for i in range(20):
        stranger.sendall(frame(wire.CALL, [[bytes(1 << 20)], {}], i, "echo"))
    assert named("client", address).sync("server", "double", 3) == 6
    stranger.close()


def test_only_the_peer_that_was_called_may_answer():
    server, address = serving()
    server.set_timeout(1)
    stranger = shaken(address, server)
    client = named("client", address)
    client.define("wait", time.sleep)
    future = server.async_("client", "wait", 0.3)
    for call in range(10):
        stranger.sendall(frame(wire.REPLY, "forged", call))
    assert future.result() is None


def test_pickle_is_an_agreement_of_both():
    server, address = serving(allow_pickle=True)
    willing, other = named("willing", address, allow_pickle=True), named("other", address)
    assert willing.sync("server", "echo", {1, 2}) == (({1, 2},), {})
    server.define("set", lambda: {1, 2})
    assert willing.sync("server", "set") == {1, 2}
    with pytest.raises(RuntimeError, match="not allowed"):
        other.sync("server", "set")
