"""Calls that wait for their answers: errors, time-outs, refusals, cancellation."""

from __future__ import annotations

import threading
import time

import pytest
import torch

from moolib import RpcError
from moolib.transport import wire
from rigs.rpcs import named, serving
from tests.moolib.strangers import frame, shaken


def test_many_calls_in_flight_from_many_threads():
    _server, address = serving()
    client = named("client", address)
    sums = []

    def work(start: int) -> None:
        futures = [client.async_("server", "double", i) for i in range(start, start + 200)]
        sums.append(sum(future.result() for future in futures))

    threads = [threading.Thread(target=work, args=(1000 * i,)) for i in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(sums) == [2 * sum(range(1000 * i, 1000 * i + 200)) for i in range(5)]
    assert client.debug_info()["calls"] == 0


def test_calls_made_before_the_peer_is_there_are_sent_when_it_comes():
    server, address = serving()
    del server
    client = named("client", address)
    future = client.async_("server", "double", 4)
    time.sleep(0.1)
    _server, _ = serving(address=address)
    assert future.result(10) == 8


def test_errors():
    server, address = serving()

    def fail(text):
        raise KeyError(text)

    server.define("fail", fail)
    server.define("strange", lambda: object())
    client = named("client", address)
    with pytest.raises(RuntimeError, match="RPC remote function server::'nope' does not exist"):
        client.sync("server", "nope")
    with pytest.raises(RpcError, match=r"(?s)KeyError\('reason'\).*test_calls.py.*in fail"):
        client.sync("server", "fail", "reason")
    with pytest.raises(RuntimeError, match="object"):
        client.sync("server", "strange")
    server.define("meta", lambda: torch.empty(3, device="meta"))
    with pytest.raises(RuntimeError, match="server::'meta' returned what cannot be sent"):
        client.sync("server", "meta")
    with pytest.raises(TypeError, match=r"builtins.object"):
        client.async_("server", "echo", object())
    with pytest.raises(RuntimeError, match="client"):
        client.async_("client", "echo")
    with pytest.raises(RuntimeError, match="'double' is already defined"):
        server.define("double", abs)
    server.undefine("double")
    server.undefine("double")
    with pytest.raises(RuntimeError, match="does not exist"):
        client.sync("server", "double", 1)
    server.define("double", abs)
    assert client.sync("server", "double", -1) == 1


def test_timeouts():
    server, address = serving()
    server.define("sleep", time.sleep)
    client = named("client", address)
    client.sync("server", "double", 1)
    client.set_timeout(0.2)
    slow, unknown = client.async_("server", "sleep", 1), client.async_("nobody", "f")
    with pytest.raises(RuntimeError, match=r"^Call \(server::sleep\) timed out$"):
        slow.result()
    with pytest.raises(RuntimeError, match=r"^Call \(nobody::<unknown>\) timed out$"):
        unknown.result()
    client.set_timeout(20)
    late = client.async_("server", "sleep", 0.3)
    with pytest.raises(RuntimeError, match=r"^The operation timed out$"):
        late.result(0.01)
    assert late.result() is None and late.done() and late.exception() is None


def test_timeouts_of_different_lengths():
    client = named("client", serving()[1])
    futures = []
    for timeout in (30, 0.1, 0.3, 0.2, 30, 0.05):
        client.set_timeout(timeout)
        futures.append(client.async_("nobody", "f"))
    for i in (5, 1, 3, 2):
        with pytest.raises(RuntimeError, match="timed out"):
            futures[i].result(20)
    assert not futures[0].done() and not futures[4].done()
    assert client.debug_info()["calls"] == 2


def test_cancelled_futures():
    server, address = serving()
    server.define("sleep", time.sleep)
    client = named("client", address)
    future = client.async_("server", "sleep", 0.2)
    assert future.cancel() and not future.cancel()
    with pytest.raises(RuntimeError, match=r"^The operation was cancelled$"):
        future.result()
    assert isinstance(future.exception(), RpcError)
    assert client.debug_info()["calls"] == 0


def test_closing_ends_what_waits():
    client = named("client")
    future = client.async_("nobody", "f")
    client.close()
    with pytest.raises(RuntimeError, match="closed"):
        future.result(5)
    with pytest.raises(RuntimeError, match="closed"):
        client.async_("nobody", "f").result(5)


def test_only_the_peer_that_was_called_may_answer():
    server, address = serving()
    server.set_timeout(1)
    stranger = shaken(address)
    client = named("client", address)
    client.define("wait", time.sleep)
    future = server.async_("client", "wait", 0.3)
    for call in range(10):
        stranger.sendall(frame(wire.REPLY, "forged", call))
    assert future.result() is None
