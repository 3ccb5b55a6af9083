"""Addresses as users write them, and the addresses that are bound."""

from __future__ import annotations

import os

import pytest

from moolib import Rpc, RpcError
from rigs.rpcs import named, serving


@pytest.mark.parametrize(
    "form", ["127.0.0.1:0", "tcp://127.0.0.1:0", "0", ":0", "*:0", "[::1]:0", "localhost:0"]
)
def test_address_forms(form):
    _server, address = serving(address=form)
    port = address.rpartition(":")[2]
    assert int(port) > 0
    for target in {address.replace("0.0.0.0", "127.0.0.1"), address if "[" in form else f":{port}"}:
        assert named("client", target).sync("server", "double", 2) == 4


def test_only_the_loopback_is_bound_unless_asked_for():
    assert Rpc().listen("0").startswith("127.0.0.1:")
    assert Rpc().listen(":0").startswith("0.0.0.0:")


def test_unix_sockets(tmp_path):
    path = f"ipc://{tmp_path}/socket"
    server, address = serving(address=path)
    assert address == path and os.stat(tmp_path / "socket").st_mode & 0o077 == 0
    assert named("client", address).sync("server", "double", 2) == 4
    with pytest.raises(RpcError, match="in use"):
        Rpc().listen(path)
    server.close()
    assert not (tmp_path / "socket").exists()


def test_addresses_that_make_no_sense_or_are_taken():
    for wrong in ("", "host", "host:port", "1.2.3.4:99999", "::1:80", "-1", "ipc://"):
        with pytest.raises(RpcError, match="expected HOST:PORT"):
            Rpc().connect(wrong)
    _server, address = serving()
    with pytest.raises(RuntimeError, match=f"cannot listen at {address}: Address already in use"):
        Rpc().listen(address)
