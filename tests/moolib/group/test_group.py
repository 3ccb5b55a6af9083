"""Membership of groups, through a broker in the same process."""

import time

import moolib
from tests.moolib.groups import gather, until


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
    second = moolib.Group(peers.rpcs[1], "two")  # a's Rpc
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
