"""Futures, for threads and for asyncio."""

from __future__ import annotations

import asyncio
import threading
import time
import traceback

import pytest

from moolib import Future, RpcError
from rigs.rpcs import named, serving


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


def test_the_first_to_finish_wins():
    future, finished = Future(), []
    future.add_done_callback(finished.append)
    assert not future.done() and future.exception() is None
    assert future.set_result(3)
    assert not future.set_result(4) and not future.set_exception(ValueError()) and not future.cancel()
    assert future.done() and future.result() == future.result() == 3
    future.add_done_callback(finished.append)
    assert finished == [future, future]


def test_an_error_is_raised_by_every_result():
    future = Future()
    future.set_exception(KeyError("reason"))
    for _ in range(2):
        with pytest.raises(KeyError, match="reason"):
            future.result()
    assert isinstance(future.exception(), KeyError)


class Strange(Exception):
    """Takes other arguments than it stores."""

    def __init__(self, number, *, unit):
        super().__init__(f"{number} {unit}")
        self.unit = unit


@pytest.mark.parametrize("error", [RpcError("one"), OSError(2, "two"), Strange(3, unit="m")])
def test_every_result_raises_a_new_exception(error):
    future = Future()
    error.add_note("note")
    future.set_exception(error)
    raised = []
    for _ in range(3):
        try:
            future.result()
        except type(error) as caught:
            raised.append((caught, len(traceback.extract_tb(caught.__traceback__))))
    assert [depth for _, depth in raised] == [2, 2, 2]
    for one, _ in raised:
        assert str(one) == str(error) and vars(one) == vars(error) and one is not error
        one.add_note("of one only")
    assert error.__traceback__ is None and error.__notes__ == ["note"]
    assert future.exception() is not error and str(future.exception()) == str(error)


def test_a_wait_that_times_out_leaves_the_future_alone():
    future = Future()
    with pytest.raises(RpcError, match=r"^The operation timed out$"):
        future.wait(0.01)
    threading.Timer(0.05, future.set_result, ["late"]).start()
    assert future.result(20) == "late"
