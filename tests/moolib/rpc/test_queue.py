"""Deferred answers, queues and batches of calls."""

from __future__ import annotations

import asyncio
import gc
import threading
import time

import numpy as np
import pytest
import torch

from moolib import Future, Rpc, RpcError
from rigs.processes import wait_until
from rigs.rpcs import named


@pytest.fixture
def pair():
    """A serving peer and the function that calls it."""
    server = named("server")
    client = named("client", server.listen("127.0.0.1:0"))
    return server, lambda *args, **kwargs: client.async_("server", "f", *args, **kwargs)


def failed_futures() -> int:
    gc.collect()
    return sum(type(each) is Future and each.exception() is not None for each in gc.get_objects())


def test_deferred_answers(pair):
    server, call = pair
    kept = []
    server.define_deferred("f", lambda ret, x, sign=1: kept.append((ret, sign * x)))
    futures = [call(3), call(4, sign=-1)]
    wait_until(lambda: len(kept) == 2)
    assert not any(future.done() for future in futures)
    for ret, value in reversed(kept):
        ret(value)
    assert sorted(future.result(10) for future in futures) == [-4, 3]
    with pytest.raises(RpcError, match="answered before"):
        kept[0][0](1)


def test_deferred_errors(pair):
    server, call = pair

    def fail(ret, how):
        if how == "raise":
            raise ValueError("reason")
        ret.error("another reason")

    server.define_deferred("f", fail)
    for how, text in (("raise", "(?s)reason.*in fail"), ("error", "^another reason$")):
        with pytest.raises(RpcError, match=text):
            call(how).result(10)


def test_a_queue_gives_calls_in_order(pair):
    server, call = pair
    queue = server.define_queue("f")
    futures = [call(i, key=-i) for i in range(3)]
    for i in range(3):
        ret, args, kwargs = (queue.result if i else queue.get)(10)
        assert (args, kwargs) == ((i,), {"key": -i})
        ret(10 * i)
    assert [future.result(10) for future in futures] == [0, 10, 20]
    with pytest.raises(RuntimeError, match="The operation timed out"):
        queue.get(0.01)
    before = failed_futures()
    for _ in range(10):
        with pytest.raises(RuntimeError):
            queue.get(0.001)
    assert failed_futures() <= before + 1, "the queue keeps takers that gave up"
    last = call(5)
    queue.get(10)[0]("kept")  # the taker that gave up has not swallowed it
    assert last.result(10) == "kept"


def test_a_queue_can_be_awaited(pair):
    server, call = pair
    queue = server.define_queue("f")

    async def take():
        return await queue

    async def serve():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(take(), 0.01)
        futures = [call(i) for i in range(2)]
        for _ in range(2):
            ret, (x,), _ = await queue
            ret(x + 1)
        return [await future for future in futures]

    assert asyncio.run(serve()) == [1, 2]


def test_dynamic_batching_stacks_what_waits(pair):
    server, call = pair
    queue = server.define_queue("f", batch_size=3, dynamic_batching=True)
    futures = [call(torch.full((2,), i), {"n": np.arange(2) + i}, f"name{i}", flag=None) for i in range(4)]
    wait_until(lambda: queue.size() == 4)
    ret, (x, n, names), kwargs = queue.get(10)
    assert x.tolist() == [[0, 0], [1, 1], [2, 2]]
    assert n["n"].tolist() == [[0, 1], [1, 2], [2, 3]]
    assert names == ("name0", "name1", "name2") and kwargs == {"flag": (None, None, None)}
    ret({"sum": x.sum(1), "pair": (n["n"], ("a", "b", "c")), "none": None})
    got = futures[2].result(10)
    assert got["sum"].item() == 4 and got["pair"][0].tolist() == [2, 3] and got["pair"][1] == "c"
    assert got["none"] is None
    ret, (x, _, _), _ = queue.get(10)
    assert x.tolist() == [[3, 3]]
    ret(None)
    assert futures[3].result(10) is None


def test_batches_of_a_fixed_size(pair):
    server, call = pair
    shapes = []

    def double(x):
        shapes.append(tuple(x.shape))
        return 2 * x

    server.define("f", double, batch_size=4, device="cpu")
    futures = [call(torch.tensor([float(i)])) for i in range(8)]
    assert [future.result(10).item() for future in futures] == [2.0 * i for i in range(8)]
    assert shapes == [(4, 1), (4, 1)]
    left = call(torch.zeros(1))
    time.sleep(0.05)
    assert not left.done()


def test_a_deferred_batch(pair):
    server, call = pair
    server.define_deferred("f", lambda ret, x: ret(x + 1), batch_size=2)
    futures = [call(np.array([i])) for i in range(2)]
    assert [future.result(10).tolist() for future in futures] == [[1], [2]]


def test_errors_reach_every_caller_of_a_batch(pair):
    server, call = pair

    def answer(x):
        if x.sum() < 0:
            raise ValueError("negative")
        return x[:1] if x.sum() > 0 else 7

    server.define("f", answer, batch_size=2)
    for value, text in ((-1, "negative"), (1, r"no such rows: shape \(1,\)"), (0, "no such rows: int 7")):
        futures = [call(torch.tensor(value)) for _ in range(2)]
        for future in futures:
            with pytest.raises(RpcError, match=text):
                future.result(10)
    futures = [call(torch.zeros(2)), call(torch.zeros(3))]
    for future in futures:
        with pytest.raises(RpcError, match="cannot be stacked"):
            future.result(10)


def test_batch_sizes_below_one_are_refused():
    with pytest.raises(RpcError, match="at least 1"):
        Rpc().define_queue("f", batch_size=0)


def test_many_threads_share_a_queue(pair):
    server, call = pair
    queue = server.define_queue("f", batch_size=8, dynamic_batching=True)

    def serve():
        for ret, (x,), _ in iter(lambda: queue.get(10), None):
            ret(-x)
            if (x < 0).any():
                return

    threads = [threading.Thread(target=serve) for _ in range(3)]
    for thread in threads:
        thread.start()
    futures = [call(torch.tensor(i)) for i in range(1, 300)]
    assert [future.result(10).item() for future in futures] == [-i for i in range(1, 300)]
    for _ in threads:
        call(torch.tensor(-1)).result(10)
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
