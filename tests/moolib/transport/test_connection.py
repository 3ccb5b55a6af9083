"""Connections to peers that misbehave after the handshake."""

from __future__ import annotations

import contextlib
import random

import msgpack
import pytest

from moolib.transport import wire
from rigs.processes import wait_until
from rigs.rpcs import named, serving
from tests.moolib.strangers import frame, heard, shaken


@pytest.mark.parametrize("seed", range(3))
def test_garbage_of_a_peer_is_harmless(seed):
    server, address = serving(max_message=1 << 20)
    rng = random.Random(seed)
    for i in range(40):
        sock = shaken(address, f"stranger{i}")
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
        sock = shaken(address)
        sock.sendall(wire.PREFIX.pack(wire.CALL, 0, body, payload, 1))
        assert heard(sock) == b""
        wait_until(lambda: not server.debug_info()["peers"])
    assert named("client", address).sync("server", "double", 3) == 6


def test_a_peer_that_reads_nothing_blocks_nobody():
    _server, address = serving()
    stranger = shaken(address)
    for i in range(20):
        stranger.sendall(frame(wire.CALL, [[bytes(1 << 20)], {}], i, "echo"))
    assert named("client", address).sync("server", "double", 3) == 6
    stranger.close()
