"""Groups and their small reductions, through a broker in the same process."""

import time

import numpy as np
import pytest
import torch

import moolib


@pytest.fixture
def peers():
    """Makes groups of new peers; each has an Rpc of its own."""
    broker = moolib.Broker()
    address = broker.listen("127.0.0.1:0")
    rpcs = [broker]  # and those of the peers

    def peer(name, group="group", timeout=None, order=None):
        rpc = moolib.Rpc()
        rpc.set_name(name)
        rpc.connect(address)
        rpcs.append(rpc)
        group = moolib.Group(rpc, group)
        if timeout is not None:
            group.set_timeout(timeout)
        if order is not None:
            group.set_sort_order(order)
        return group

    peer.rpcs = rpcs
    yield peer
    for rpc in rpcs:
        rpc.close()


def until(groups, condition, timeout=10.0):
    """Update the groups until the condition is true."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        for group in groups:
            group.update()
        time.sleep(0.001)


def gather(groups):
    until(groups, lambda: len({(g.sync_id(), len(g.members())) for g in groups}) == 1 and all_in(groups))


def all_in(groups):
    return len(groups[0].members()) == len(groups)


def test_members_and_sync_ids(peers):
    a = peers("a")
    assert (a.name(), a.members(), a.sync_id(), a.active()) == ("group", [], 0, False)
    gather([a])
    first = a.sync_id()
    assert a.active() and a.members() == ["a"] and first > 0
    assert not a.update()
    b = peers("b")
    while b.sync_id() == 0:
        b.update()
        time.sleep(0.001)
    assert a.members() == ["a"], "nothing changes between two updates"
    assert a.update()
    assert a.members() == b.members() == ["a", "b"]
    assert a.sync_id() == b.sync_id() > first
    del b
    until([a], lambda: a.members() == ["a"])


def test_sort_order(peers):
    a, b, c = groups = peers("a", order=5), peers("b"), peers("c", order=-1)
    gather(groups)
    assert a.members() == ["c", "b", "a"]
    c.set_sort_order(9)
    until(groups, lambda: a.members() == b.members() == c.members() == ["b", "a", "c"])


def test_groups_of_one_broker_are_independent(peers):
    a, b = peers("a", "one"), peers("b", "two")
    second = moolib.Group(peers.rpcs[1], "two")  # the one of a
    until([a, b, second], lambda: len(b.members()) == 2 and a.active())
    assert a.members() == ["a"] and set(second.members()) == {"a", "b"}


def test_another_name_for_the_broker():
    broker = moolib.Broker()
    broker.set_name("boss")
    rpc = moolib.Rpc()
    rpc.connect(broker.listen("127.0.0.1:0"))
    group = moolib.Group(rpc, "group")
    group.set_broker_name("boss")
    until([group], group.active)
    rpc.close()
    broker.close()


def test_sums_of_nested_tensors(peers):
    groups = [peers(name) for name in "abc"]
    gather(groups)
    data = [{"x": torch.full((2, 3), float(i)), "y": [(np.arange(2) * i, i)]} for i in range(3)]
    results = [g.all_reduce("sum", d) for g, d in zip(groups, data, strict=True)]
    for future in results:
        value = future.result(10)
        assert value["x"].tolist() == [[3, 3, 3], [3, 3, 3]]
        array, number = value["y"][0]
        assert array.tolist() == [0, 3] and number == 3
    assert data[1]["x"].tolist() == [[1, 1, 1], [1, 1, 1]], "the caller's tensors are never changed"


def test_an_operation_is_folded_in_the_order_of_the_members(peers):
    groups = [peers(name) for name in "abcd"]
    gather(groups)
    for _ in range(5):
        futures = [g.all_reduce("names", [g.client.name], lambda x, y: x + y) for g in groups]
        assert all(f.result(10) == groups[0].members() for f in futures)


def test_several_at_once_in_any_order(peers):
    a, b = groups = peers("a"), peers("b")
    gather(groups)
    futures = [a.all_reduce("x", 1), a.all_reduce("y", 10), b.all_reduce("y", 20), b.all_reduce("x", 2)]
    assert [f.result(10) for f in futures] == [3, 30, 30, 3]
    pending = a.all_reduce("z", 1)
    with pytest.raises(RuntimeError, match="'z' is already under way"):
        a.all_reduce("z", 1)
    b.all_reduce("z", 1)
    assert pending.result(10) == 2


def test_the_caller_may_change_its_tensor_at_once(peers):
    groups = peers("a"), peers("b")
    gather(groups)
    tensors = [torch.ones(4), torch.ones(4)]
    futures = []
    for group, tensor in zip(groups, tensors, strict=True):
        futures.append(group.all_reduce("x", tensor))
        tensor.zero_()
    assert all(f.result(10).tolist() == [2, 2, 2, 2] for f in futures)


def test_how_reductions_end_without_a_result(peers):
    a = peers("a", timeout=0.3)
    with pytest.raises(RuntimeError, match="not a member"):
        a.all_reduce("x", 1)
    b = peers("b", timeout=0.3)
    groups = [a, b]
    gather(groups)
    for group in groups:
        with pytest.raises(RuntimeError, match="AllReduce operation timed out"):
            group.all_reduce(f"late {group.client.name}", 1).result(10)
    futures = [g.all_reduce("bad", g.client.name, lambda x, y: 1 / 0) for g in groups]
    for future in futures:
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            future.result(10)
    futures = [a.all_reduce("shapes", torch.ones(2)), b.all_reduce("shapes", torch.ones(3))]
    for future in futures:
        with pytest.raises(RuntimeError, match="shapes differ"):
            future.result(10)
    futures = [a.all_reduce("x", 1)]
    peers_c = peers("c")
    gather([a, b, peers_c])
    with pytest.raises(RuntimeError, match="cancelled due to a group change"):
        futures[0].result(10)
    futures = [g.all_reduce("x", 1) for g in (a, b, peers_c)]
    assert all(f.result(10) == 3 for f in futures)
