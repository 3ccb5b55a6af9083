"""Objects end with their last reference, after errors as well, without the help of the garbage collector."""

import asyncio
import contextlib
import functools
import gc
import time
import weakref

import pytest
import torch

import moolib
from rigs.local_members import Member, gather, have, want
from rigs.processes import wait_until
from rigs.rpcs import named, serving


@pytest.fixture(autouse=True)
def no_garbage_collection():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def wait_until_gone(references):
    """Wait a moment for threads that are about to let go."""
    wait_until(lambda: not any(reference() for reference in references), timeout=5)


def sync(client):
    client.sync("server", "nope")


def result_twice(client):
    future = client.async_("server", "nope")
    with contextlib.suppress(RuntimeError):
        future.result()
    future.result()


def result_in_time(client):
    client.async_("nobody", "f").result(0.01)


def call_timeout(client):
    client.set_timeout(0.05)
    client.sync("nobody", "f")


def cancelled(client):
    future = client.async_("nobody", "f")
    future.cancel()
    future.result()


def awaited(client):
    async def run(future):
        with pytest.raises(RuntimeError):
            await future

    asyncio.run(run(client.async_("server", "nope")))
    raise RuntimeError  # asyncio keeps an exception that leaves its task alive


def asked_for(client):
    future = client.async_("server", "nope")
    future.wait()
    raise future.exception()


def itself(client):
    client.sync(client.get_name(), "f")


def malformed(client):
    client.connect("nowhere")


@pytest.mark.parametrize(
    "fail",
    [sync, result_twice, result_in_time, call_timeout, cancelled, awaited, asked_for, itself, malformed],
)
def test_an_address_is_free_again_after_an_error(fail):
    def use(address):
        _server, address = serving(address=address)
        client = named("client", address)
        client.sync("server", "double", 1)
        with pytest.raises(RuntimeError):
            fail(client)
        return address

    address = use("127.0.0.1:0")
    use(address)  # it would be in use


def test_an_address_that_is_taken():
    def use():
        server, address = serving()
        client = named("client", address)
        with pytest.raises(RuntimeError, match="in use"):
            client.listen(address)
        return weakref.ref(server), weakref.ref(client)

    wait_until_gone(use())


def test_a_broker_with_groups():
    def use(address):
        broker = moolib.Broker()
        address = broker.listen(address)
        members = [Member(address, name) for name in "ab"]
        gather(members)
        for member in members:
            member.close()
        return address

    address = use("127.0.0.1:0")
    use(address)


@pytest.fixture
def broker():
    broker = moolib.Broker()
    broker.address = broker.listen("127.0.0.1:0")
    yield broker
    broker.close()


@pytest.mark.parametrize("updates", [0, 1, 50])
def test_an_accumulator_closes_the_rpc_that_it_owns(broker, updates):
    accumulator = moolib.Accumulator("model", [torch.zeros(1, requires_grad=True)])
    accumulator.connect(broker.address)
    for _ in range(updates):
        accumulator.update()
        time.sleep(0.01)
    (rpc,) = (weakref.ref(value) for value in vars(accumulator).values() if isinstance(value, moolib.Rpc))
    del accumulator
    wait_until_gone([rpc])


def test_an_accumulator_after_errors(broker):
    def use():
        members = [Member(broker.address, name) for name in "ab"]
        gather(members)
        want(members)
        for member in members:
            member.reduce(1.0)
        have(members)
        for member in members:
            for call in (
                functools.partial(member.accumulator.reduce_gradients, 1),
                functools.partial(member.accumulator.set_state, None),
                member.accumulator.state,
                functools.partial(member.accumulator.connect, "127.0.0.1:1"),
            ):
                with pytest.raises(RuntimeError):
                    call()
        return [weakref.ref(part) for member in members for part in (member.rpc, member.accumulator)]

    wait_until_gone(use())


def test_an_accumulator_whose_control_thread_failed(broker, monkeypatch):
    def fail(*_):
        raise KeyError("trouble")

    def use():
        member = Member(broker.address, "a")
        gather([member])
        want([member])
        monkeypatch.setattr("moolib.accumulator.rounds.Rounds._finish_step", fail)
        member.reduce(1.0)
        texts = []
        for _ in range(3):
            with pytest.raises(KeyError, match="trouble") as caught:
                while True:
                    member.accumulator.update()
            texts.append((len(caught.traceback), caught.value.__notes__))
            del caught
        assert texts[0] == texts[1] == texts[2] and "in _finish_step" not in texts[0][1][0]
        assert "in run_round" in texts[0][1][0] and texts[0][1][0].endswith("KeyError: 'trouble'\n")
        return [weakref.ref(part) for part in (member.rpc, member.accumulator, member.group)]

    wait_until_gone(use())


def test_an_accumulator_that_was_refused(broker):
    def use():
        first = Member(broker.address, "a")
        gather([first])
        other = Member(broker.address, "b", torch.zeros(7, requires_grad=True))
        with pytest.raises(RuntimeError, match="differs"):
            while True:
                other.update()
        with pytest.raises(RuntimeError, match="not a member"):
            other.group.all_reduce("x", 1)
        return [weakref.ref(part) for m in (first, other) for part in (m.rpc, m.accumulator, m.group)]

    wait_until_gone(use())
