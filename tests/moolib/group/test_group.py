"""Membership of groups, through a broker in the same process."""

import signal
import time

import pytest
import torch

import moolib
from moolib.limits import MAX_GROUP_NAME
from rigs.local_members import Member
from rigs.local_members import gather as gather_members
from rigs.processes import Broker
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
    until([a, b, second], lambda: len(b.members()) == len(second.members()) == 2 and a.active())
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


@pytest.mark.parametrize(
    "name", ["", "x" * MAX_GROUP_NAME, "\U0001f415" * MAX_GROUP_NAME, "Müller (a) b/c", "%"]
)
def test_legal_names(peers, name):
    groups = a, _ = peers("a", name), peers("b", name)
    gather(groups)
    total = [group.all_reduce("sum", torch.tensor([1.0])) for group in groups]
    assert a.name() == name and [t.result(10).tolist() for t in total] == [[2.0]] * 2


def test_names_that_are_too_long_or_cannot_be_sent():
    with pytest.raises(RuntimeError, match=r"group name xxx.*… \(201 characters\): at most 200 characters"):
        moolib.Group(moolib.Rpc(), "x" * 201)
    with pytest.raises(RuntimeError, match=r"group name 'a\\udce9': characters that are not UTF-8"):
        moolib.Group(moolib.Rpc(), "a\udce9")


def test_the_broker_is_lost(peers):
    a, unconnected = peers("a"), moolib.Group(moolib.Rpc(), "group")
    gather([a])
    assert a.broker_lost_for() == 0
    peers.rpcs[0].close()  # the broker
    until([a], lambda: a.broker_lost_for() > 0.05)
    assert a.members() == ["a"]
    first, second = a.broker_lost_for(), a.broker_lost_for()
    assert 0.05 < first <= second
    assert 0 < unconnected.broker_lost_for() < 10


def test_the_broker_falls_silent():
    broker = Broker()
    member = Member(broker.address, "a", timeout=0.5)
    group = member.group
    gather_members([member])
    broker.signal(signal.SIGSTOP)
    until([group], lambda: group.broker_lost_for() > 0)
    assert group.broker_lost_for() >= 0.5  # the connection still stands
    broker.signal(signal.SIGCONT)
    until([group], lambda: group.broker_lost_for() == 0)
    member.close()
    broker.kill()


def test_an_advertised_address_may_have_brackets(peers):
    group = peers("a")
    group.set_advertise("[::1]")
    assert group.client.advertise == "::1"
    with pytest.raises(ValueError, match="not an IP address of this machine"):
        group.set_advertise("[1.2.3.4")
