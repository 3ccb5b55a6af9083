"""One-way messages on the loop thread."""

from __future__ import annotations

import threading
import time

from rigs.rpcs import named, serving


def test_notifications_keep_their_order_and_inline_functions_know_the_caller():
    server, address = serving()
    client = named("client", address)
    got, done = [], threading.Event()
    server.messages.define("note", lambda peer, i: (got.append((peer, i)), i == 999 and done.set()))
    server.messages.define("who", lambda peer: peer)
    assert client.sync("server", "who") == "client"
    assert not client.messages.send("nobody", "note", 0)
    for i in range(1000):
        assert client.messages.send("server", "note", i)
    assert done.wait(10)
    assert got == [("client", i) for i in range(1000)]
    assert client.messages.local_host("server") == "127.0.0.1"


def test_order_is_kept_when_the_connection_is_full():
    server, address = serving()
    client = named("client", address)
    got, done = [], threading.Event()

    def note(peer, i, data):
        time.sleep(0.001)
        got.append(i)
        if i == 99:
            done.set()

    server.messages.define("note", note)
    client.sync("server", "double", 1)
    for i in range(100):
        assert client.messages.send("server", "note", i, bytes(300_000 if i % 3 else 10))
    assert done.wait(20)
    assert got == list(range(100))
