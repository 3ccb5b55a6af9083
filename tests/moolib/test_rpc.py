"""Calls: values, errors, time-outs, futures, callbacks, notifications."""

from __future__ import annotations

import asyncio
import threading
import time

import numpy as np
import pytest
import torch

import moolib
from moolib import Rpc, RpcError
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
    with pytest.raises(RpcError, match=r"(?s)KeyError\('reason'\).*test_rpc.py.*in fail"):
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


def test_futures_can_be_awaited():
    server, address = serving()
    server.define("sleep", time.sleep)
    client = named("client", address)

    async def run():
        first = await client.async_("server", "double", 2)
        rest = await asyncio.gather(*(wait(client.async_("server", "double", i)) for i in range(5)))
        slow = client.async_("server", "sleep", 0.5)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(wait(slow), 0.05)
        assert slow.done()
        with pytest.raises(RpcError, match="nope"):
            await client.async_("server", "nope")
        return first, rest

    async def wait(future):
        return await future

    assert asyncio.run(run()) == (4, [0, 2, 4, 6, 8])


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


def test_notifications_keep_their_order_and_inline_functions_know_the_caller():
    server, address = serving()
    client = named("client", address)
    got, done = [], threading.Event()
    server._define_inline("note", lambda peer, i: (got.append((peer, i)), i == 999 and done.set()))
    server._define_inline("who", lambda peer: peer)
    assert client.sync("server", "who") == "client"
    assert not client._notify("nobody", "note", 0)
    for i in range(1000):
        assert client._notify("server", "note", i)
    assert done.wait(10)
    assert got == [("client", i) for i in range(1000)]
    assert client._local_host("server") == "127.0.0.1"


def test_order_is_kept_when_the_connection_is_full():
    server, address = serving()
    client = named("client", address)
    got, done = [], threading.Event()

    def note(peer, i, data):
        time.sleep(0.001)
        got.append(i)
        if i == 99:
            done.set()

    server._define_inline("note", note)
    client.sync("server", "double", 1)
    for i in range(100):
        assert client._notify("server", "note", i, bytes(300_000 if i % 3 else 10))
    assert done.wait(20)
    assert got == list(range(100))


def test_the_number_of_handlers_that_run_at_a_time():
    server, address = serving()
    client = named("client", address)
    running, most, lock = [0], [0], threading.Lock()

    def work():
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        together.wait(10)  # so many must run at a time
        with lock:
            running[0] -= 1

    server.define("work", work)
    try:
        for limit in (2, 5, 1):
            together = threading.Barrier(limit)
            moolib.set_max_threads(limit)
            most[0] = 0
            for future in [client.async_("server", "work") for _ in range(3 * limit)]:
                future.result()
            assert most[0] == limit  # and no more may
    finally:
        moolib.set_max_threads(16)


def test_module_functions():
    assert len(moolib.create_uid()) == 16 and int(moolib.create_uid(), 16) >= 0
    with pytest.raises(ValueError, match="0 to 4"):
        moolib.set_log_level("loud")
    with pytest.raises(ValueError, match="0 to 4"):
        moolib.set_log_level(5)
    for level in ("none", "debug", 0, 1):
        moolib.set_log_level(level)
    with pytest.raises(ValueError, match="at least 1"):
        moolib.set_max_threads(0)
    with pytest.raises(RpcError, match="allowed are"):
        Rpc().set_transports(["pigeon"])
    with pytest.raises(AttributeError, match="nothing"):
        moolib.nothing  # noqa: B018
