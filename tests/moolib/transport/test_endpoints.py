"""Addresses that a node listens at or dials."""

from __future__ import annotations

import os

import pytest

from moolib import RpcError
from rigs.rpcs import named, serving
from tests.moolib.strangers import attach


def test_hosts_that_cannot_be_found_and_the_own_address():
    server, address = serving()
    for target in ("nobody.invalid:80", "a..b:80", address):
        server.connect(target)
    with pytest.raises(RpcError, match="cannot listen at"):
        server.listen("a..b:0")
    assert named("client", address).sync("server", "double", 2) == 4
    assert list(server.debug_info()["peers"]) in ([], ["client"])


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
