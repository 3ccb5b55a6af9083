"""The handshake: strangers learn nothing and harm nothing."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import socket
import struct
import time

import pytest

import moolib
from moolib.transport import wire
from moolib.transport.link import MAGIC, VERSION
from rigs.processes import wait_until
from rigs.rpcs import named, serving
from tests.moolib.strangers import attach, frame, heard, receive


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
        client.close()


def test_a_different_version_is_refused_with_the_reason():
    _server, address = serving()
    sock = attach(address)
    sock.sendall(frame(wire.GREET, [MAGIC, VERSION + 1, os.urandom(32)]))
    assert f"version {VERSION + 1} here meets version {VERSION}".encode() in heard(sock)


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


def test_connections_without_a_hello_are_dropped_after_two_seconds():
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
    # None of the 60 stays open; objects of earlier tests may be collected now, and close a few others.
    wait_until(lambda: len(os.listdir("/proc/self/fd")) < descriptors + 10)
    assert named("client", address).sync("server", "double", 3) == 6
    assert list(server.debug_info()["peers"]) in ([], ["client"])
