"""The Accumulator when members come, go, lag or differ: the leader, and the members that adopt its model."""

import gc
import time

import pytest
import torch

from rigs.local_members import gather, have, run, want


def test_a_joiner_gets_parameters_buffers_and_state_of_the_leader(join):
    a = join("b", torch.tensor([5.0, 6.0], requires_grad=True), buffers=[torch.tensor([7])])
    gather([a])
    want([a])
    a.reduce(1.0)
    have([a])
    a.step()
    a.given = {"optimizer": [torch.arange(3), (1, "x")]}
    b = join("z", torch.zeros(2, requires_grad=True), buffers=[torch.tensor([0])])
    gather([a, b])
    assert a.accumulator.is_leader() and b.accumulator.get_leader() == "b" and not b.accumulator.is_leader()
    assert b.accumulator.model_version() == 1
    assert b.parameters[0].tolist() == [4, 5] and b.buffers[0].tolist() == [7]
    assert a.states == [] and len(b.states) == 1
    numbers, pair = b.states[0]["optimizer"]
    assert numbers.tolist() == [0, 1, 2] and pair == (1, "x")
    with pytest.raises(RuntimeError, match="set_state"):
        a.accumulator.set_state(None)
    with pytest.raises(RuntimeError, match="state"):
        b.accumulator.state()


def test_the_state_may_take_its_time(join):
    a = join("b")
    gather([a])
    b = join("a")
    deadline = time.monotonic() + 10
    while not a.accumulator.wants_state():
        assert time.monotonic() < deadline
        for member in (a, b):
            member.group.update()
            member.accumulator.update()
    time.sleep(0.2)
    gather([a, b])
    assert b.states == [{"from": "b"}]


def test_the_greatest_version_leads_and_then_the_greatest_name(join):
    members = a, b, c = [
        join(name, torch.full((1,), float(i), requires_grad=True)) for i, name in enumerate("abc")
    ]
    a.accumulator.set_model_version(7)
    gather(members)
    assert [m.accumulator.get_leader() for m in members] == ["a"] * 3
    assert [m.parameters[0].item() for m in members] == [0, 0, 0]
    assert [m.accumulator.model_version() for m in members] == [7, 7, 7]
    a.close()
    gather([b, c])
    assert b.accumulator.get_leader() == c.accumulator.get_leader() == "c"


def test_a_different_model_is_refused_and_the_group_goes_on(join):
    a = join("a", torch.zeros(3, requires_grad=True), torch.zeros(4, 2, requires_grad=True))
    gather([a])
    b = join("b", torch.zeros(3, requires_grad=True), torch.zeros(4, 3, requires_grad=True))
    with pytest.raises(RuntimeError) as error:
        run([b], lambda: False)
    text = str(error.value)
    assert "'b' has parameter 1 of float32 [4, 3]" in text and "'a' has parameter 1 of float32 [4, 2]" in text
    run([a], lambda: a.accumulator.wants_gradients())
    a.reduce(1.0)
    have([a])
    assert a.group.members() == ["a"]


def test_a_dropped_accumulator_leaves_the_group(join):
    a, b = members = join("a"), join("b")
    gather(members)
    b.accumulator = b.group = None
    gc.collect()
    gather([a])
