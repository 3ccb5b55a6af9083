"""Calls between peers: values, callbacks, pickle."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from rigs.rpcs import named, serving


def test_calls_keep_types_and_keywords():
    server, address = serving()
    client = named("client", address)
    assert client.sync("server", "double", 21) == 42
    value = (1, [2, (3, None)], {"a": b"x", 4: True}, 2**100)
    assert client.sync("server", "echo", value, peer="keyword") == ((value,), {"peer": "keyword"})
    assert client.async_("server", "double", 1.5).result(5) == 3.0
    assert server.get_name() == "server" and client.get_name() == "client"


def test_tensors_and_arrays():
    _server, address = serving()
    client = named("client", address)
    big = torch.randn(700, 1000).to(torch.bfloat16).T
    (got, array, empty), _ = client.sync("server", "echo", big, np.arange(10)[::3], torch.zeros(0, 3))
    assert torch.equal(got, big) and got.dtype == torch.bfloat16
    assert array.tolist() == [0, 3, 6, 9] and empty.shape == (0, 3)


def test_callbacks():
    _server, address = serving()
    client = named("client", address)
    got, done = [], threading.Semaphore(0)

    def callback(result, error):
        got.append((result, error))
        done.release()

    client.async_callback("server", "double", callback, 4)
    assert done.acquire(timeout=10)
    client.async_callback("server", "nope", callback)
    assert done.acquire(timeout=10)
    assert got[0] == (8, None)
    assert got[1][0] is None and "does not exist" in str(got[1][1])


def test_a_handler_may_call_back():
    server, address = serving()
    client = named("client", address)
    client.define("name", lambda: "client")
    server.define("ask", lambda peer: server.sync(peer, "name"))
    assert client.sync("server", "ask", "client") == "client"


def test_pickle_is_an_agreement_of_both():
    server, address = serving(allow_pickle=True)
    willing, other = named("willing", address, allow_pickle=True), named("other", address)
    assert willing.sync("server", "echo", {1, 2}) == (({1, 2},), {})
    server.define("set", lambda: {1, 2})
    assert willing.sync("server", "set") == {1, 2}
    with pytest.raises(RuntimeError, match="not allowed"):
        other.sync("server", "set")
