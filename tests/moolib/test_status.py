"""Asking a broker for its groups."""

import socket

import pytest

import moolib
from moolib.status import ask_status, format_status


def test_text():
    status = {"g": {"sync_id": 7, "members": [{"name": "x", "last_ping": 0.25, "accumulators": {}}]}}
    assert format_status(status) == "g: sync id 7, 1 member\n  x: last ping 0.2 s ago"


@pytest.mark.parametrize(
    "form", ["127.0.0.1:0", "[::1]:0", "localhost:0", "tcp://[::1]:0", "ipc://{}/socket"]
)
def test_addresses(form, tmp_path):
    broker = moolib.Broker()
    assert ask_status(moolib.Rpc(), broker.listen(form.format(tmp_path))) == {}
    broker.close()


@pytest.mark.parametrize(
    "address, reason",
    [
        ("127.0.0.1:1", "connection refused"),
        ("[::1]:1", "connection refused"),
        ("nowhere.invalid:1", "not known|resolution"),
        ("ipc:///nowhere", "no such file or directory"),
        ("x" * 100 + ":1", "label"),  # too long for a host name
    ],
)
def test_nobody_is_there(monkeypatch, address, reason):
    monkeypatch.setattr("moolib.status.STATUS_TIMEOUT", 1000.0)  # it is said at once
    with pytest.raises(moolib.RpcError, match=rf"no broker answered at .*{address[-6:]}: .*({reason})"):
        ask_status(moolib.Rpc(), address)


def test_nobody_answers(monkeypatch):
    monkeypatch.setattr("moolib.status.STATUS_TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(moolib.RpcError, match=f"no broker answered at {address}: .*timed out"):
            ask_status(moolib.Rpc(), address)
