"""Addresses as users write them, and the addresses that are bound."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re

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


@pytest.mark.parametrize(
    "reason, wrong",
    [
        ("no port", "host"),
        ("no port", "1.2.3.4"),
        ("no port", "[::1]"),
        ("no port", "::1"),
        ("no port", "::1:80"),  # an IPv6 address
        ("no port", "fe80::1%eth0"),
        ("no port", "tcp://host"),
        ("no port", "host:"),
        ("no port", ""),
        ("no path", "ipc://"),
        ("'port' is not a port", "host:port"),
        ("'99999' is not a port", "1.2.3.4:99999"),
        ("'-1' is not a port", "host:-1"),
        ("'a:b' is not a host", "a:b:80"),
    ],
)
def test_addresses_that_make_no_sense(reason, wrong):
    text = re.escape(
        f"address {wrong!r}: {reason}; expected HOST:PORT, [V6]:PORT, *:PORT, PORT or ipc://PATH"
    )
    for method in (Rpc().connect, Rpc().listen):
        with pytest.raises(RpcError, match=f"^{text}$") as caught:
            method(wrong)
        assert caught.value.reason == reason


def test_an_address_that_is_taken():
    _server, address = serving()
    with pytest.raises(RuntimeError, match=f"cannot listen at {address}: Address already in use"):
        Rpc().listen(address)


def link_local():
    """An IPv6 address that is valid on one interface only, or None."""
    with contextlib.suppress(OSError), open("/proc/net/if_inet6") as file:
        for digits, _, _, scope, _, interface in map(str.split, file):
            if scope == "20":
                return f"{ipaddress.ip_address(bytes.fromhex(digits))}%{interface}"
    return None


@pytest.mark.skipif(link_local() is None, reason="no link-local address")
def test_link_local_addresses_keep_their_interface():
    server, address = serving(address=f"[{link_local()}]:0")
    assert address.startswith(f"[{link_local()}]:")
    client = named("client", address)
    assert client.sync("server", "double", 2) == 4
    assert client.messages.local_host("server") == server.messages.local_host("client") == link_local()
