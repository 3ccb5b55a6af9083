"""The Accumulator when members come, go, lag or differ: who leads, who gets the model, what is kept."""

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


def test_contributions_outlive_a_change_of_the_members(join):
    members = a, b = join("a"), join("b")
    gather(members)
    want(members)
    a.reduce(2.0, 5)  # b is slow, and meanwhile c joins
    c = join("c")
    members = a, b, c
    gather(members)
    run(members, lambda: all(m.accumulator.wants_gradients() for m in (b, c)))
    assert not a.accumulator.wants_gradients()
    b.reduce(4.0, 5)
    c.accumulator.skip_gradients()
    have(members)
    assert c.parameters[0].grad.tolist() == [3, 3, 3]
    assert c.accumulator.get_gradient_stats() == {"num_gradients": 2, "num_skipped": 1, "batch_size": 10}


def test_a_step_may_be_completed_by_a_change_of_the_members_while_the_program_computes(join):
    members = a, b, c = join("a"), join("b"), join("c")
    gather(members)
    for member in members:
        member.accumulator.set_virtual_batch_size(2)
    want(members)
    a.reduce(2.0)
    b.accumulator.skip_gradients()
    c.accumulator.skip_gradients()
    want(members)  # for the second count
    b.reduce(4.0)
    assert a.accumulator.wants_gradients()  # a computes from here on
    c.close()  # in the new epoch the contributions of a and b stand, and are enough
    run([b], b.accumulator.has_gradients)
    assert b.parameters[0].grad.tolist() == [3, 3, 3]
    a.reduce(8.0)  # too late for that step
    with pytest.raises(RuntimeError, match="no gradients are wanted"):
        a.accumulator.skip_gradients()
    have([a])
    assert a.parameters[0].grad.tolist() == [3, 3, 3]
    for member in (a, b):
        member.step()
    want([b])
    b.reduce(6.0, 2)
    have([a, b])
    for member in (a, b):
        assert member.parameters[0].grad.tolist() == [6, 6, 6]
        assert member.accumulator.get_gradient_stats() == {
            "num_gradients": 1,
            "num_skipped": 1,
            "batch_size": 2,
        }


def test_a_member_that_does_not_answer_is_taken_as_skipping(join):
    a, b = members = join("a", timeout=0.3), join("b", timeout=0.3)
    gather(members)
    want(members)
    for _ in range(20):  # more steps than b may miss
        a.reduce(1.0)
        have([a])
        assert a.accumulator.get_gradient_stats() == {"num_gradients": 1, "num_skipped": 1, "batch_size": 1}
        a.step()
        want([a])
    gather(members)  # b is back
    run(members, lambda: b.accumulator.model_version() == 20)
    assert torch.equal(b.parameters[0], a.parameters[0])
    want(members)
    a.reduce(1.0)
    b.reduce(2.0)
    have(members)
    assert b.parameters[0].grad.tolist() == [1.5, 1.5, 1.5]


def test_a_replica_that_differs_takes_the_model_of_the_leader(join, monkeypatch):
    monkeypatch.setattr("moolib.rounds.CHECK_INTERVAL", 3)
    monkeypatch.setattr("moolib.accumulator.CHECK_INTERVAL", 3)
    members = join("a"), join("b")
    gather(members)
    a, b = sorted(members, key=lambda m: m.accumulator.is_leader())
    assert len(a.states) == 1 and b.states == []
    for version in range(1, 10):
        want(members)
        if version == 8:
            with torch.no_grad():
                a.parameters[0][1] += 1e-6  # a flipped bit
        for member in members:
            member.reduce(0.5)
        have(members)
        for member in members:
            member.step()
    want(members)
    assert not torch.equal(a.parameters[0], b.parameters[0])
    for member in members:
        member.reduce(0.5)  # with the checksum of version 9

    def replaced():
        if b.accumulator.has_gradients():
            b.step()  # the count that shows the difference may complete the leader's step
        return len(a.states) == 2

    run(members, replaced)
    assert torch.equal(a.parameters[0], b.parameters[0])
    assert len(a.states) == 2 and b.states == []


def test_the_leader_sends_its_buffers_now_and_then(join, monkeypatch):
    monkeypatch.setattr("moolib.accumulator.SHARE_INTERVAL", 0.0)
    members = join("a", buffers=[torch.zeros(2)]), join("b", buffers=[torch.zeros(2)])
    gather(members)
    want(members)
    a, b = sorted(members, key=lambda m: m.accumulator.is_leader())
    b.buffers[0].fill_(5)
    for member in members:
        member.reduce(1.0)
    have(members)
    assert a.buffers[0].tolist() == [5, 5]


def test_another_model_is_refused_and_the_group_goes_on(join):
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
