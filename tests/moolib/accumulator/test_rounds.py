"""The rounds and steps of an epoch, and contributions that outlive it."""

import logging

import pytest
import torch

import moolib
from moolib.accumulator.rounds import MIN_SPLIT
from rigs.local_members import gather, have, run, want


class Once:
    """A program that contributes once for each value of `key(member)`, and never skips."""

    def __init__(self, member, key):
        self.member, self.key, self.done = member, key, None
        self.accumulator = member.accumulator

    def update(self):
        self.member.update()
        if self.accumulator.has_gradients():
            self.member.step()
        elif self.accumulator.wants_gradients() and self.key(self.member) != self.done:
            self.done = self.key(self.member)
            self.member.reduce(1.0, 32)


KEYS = {
    "version": lambda m: m.accumulator.model_version(),
    "version and sync id": lambda m: (m.accumulator.model_version(), m.group.sync_id()),
}


@pytest.fixture
def skips(caplog):
    """The members that were counted as skipping because they did not answer, as lines of the log."""
    moolib.set_logging(logging.getLogger("skips"))
    yield lambda: [text for text in caplog.messages if "counted as a skip" in text]
    moolib.set_logging(logging.getLogger("moolib"))


@pytest.mark.parametrize("size", [2, 3])
def test_gradients_of_a_large_model(join, size):
    """Two members reduce them in two parts."""
    count = MIN_SPLIT + 1
    members = [join(name, torch.zeros(count, requires_grad=True)) for name in "abc"[:size]]
    gather(members)
    for step in range(4):
        want(members)
        for i, member in enumerate(members):
            member.parameters[0].grad = torch.arange(count) * float(size * i + step)
            member.accumulator.reduce_gradients(1)
        have(members)
        mean = torch.arange(count) * (step + size * (size - 1) / 2)
        torch.testing.assert_close(members[0].parameters[0].grad, mean)
        for member in members:
            assert torch.equal(member.parameters[0].grad, members[0].parameters[0].grad)
            assert member.accumulator.get_gradient_stats()["num_gradients"] == size
        for member in members:
            member.step()


def test_rounds_follow_until_the_virtual_batch_is_full(join):
    members = a, b = join("a"), join("b")
    for member in members:
        member.accumulator.set_virtual_batch_size(25)
    gather(members)
    want(members)
    a.reduce(1.0, 10)
    assert not a.accumulator.wants_gradients()  # once per round
    with pytest.raises(RuntimeError, match="reduce_gradients"):
        a.reduce(1.0, 10)
    with pytest.raises(RuntimeError, match="skip_gradients"):
        a.accumulator.skip_gradients()
    b.accumulator.skip_gradients()
    want(members)  # 10 of 25
    a.accumulator.skip_gradients()
    b.accumulator.skip_gradients()
    want(members)  # a round of nothing but skips
    a.reduce(2.0, 10)
    b.reduce(6.0, 10)
    have(members)  # 30 of 25: the overshoot is at most one contribution of each
    for member in members:
        assert member.parameters[0].grad.tolist() == [3, 3, 3]
        stats = member.accumulator.get_gradient_stats()
        assert stats == {"num_gradients": 3, "num_skipped": 3, "batch_size": 30}


@pytest.mark.parametrize("rounds", [1, 3])
def test_the_expected_number_of_rounds_changes_nothing(join, rounds):
    """From the third step on, the gradients travel with the last expected round."""
    members = a, b = join("a"), join("b")
    for member in members:
        member.accumulator.set_virtual_batch_size(2 * rounds)
    gather(members)
    for step in range(6):
        last, given = step == 5, []
        for number in range(rounds + last):
            want(members)
            a.reduce(step + number)
            given.append(step + number)
            if last and number == rounds - 1:
                b.accumulator.skip_gradients()  # so this step needs an unexpected round
            else:
                b.reduce(1.0)
                given.append(1.0)
        have(members)
        for member in members:
            assert member.parameters[0].grad.tolist() == pytest.approx([sum(given) / len(given)] * 3)
            assert member.accumulator.get_gradient_stats()["num_gradients"] == len(given)
            member.step()


def test_parallel_gradients(join):
    a, b = members = join("a"), join("b")
    for member in members:
        member.accumulator.set_parallel_gradients(2)
        member.accumulator.set_virtual_batch_size(2)
    gather(members)
    for version in range(1, 6):  # a keeps two in progress, b waits for each result
        while a.accumulator.wants_gradients():
            a.reduce(1.0)
        want([b])
        b.reduce(3.0)
        have(members)
        for member in members:
            assert member.parameters[0].grad.tolist() == [2, 2, 2]
            assert member.accumulator.model_version() == version
            member.step()


def test_contributions_outlive_a_change_of_the_members(join):
    members = a, b = join("a"), join("b")
    gather(members)
    want(members)
    a.reduce(2.0, 5)  # b is slow, and c joins in the meantime
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


@pytest.mark.parametrize("late", ["contribution", "skip"])
def test_a_step_may_be_completed_by_a_change_of_the_members_while_the_program_computes(join, late):
    """A contribution or a skip that comes too late for it takes no turn in the next step."""
    members = a, b, c = join("a"), join("b"), join("c")
    gather(members)
    for member in members:
        member.accumulator.set_virtual_batch_size(2)
    want(members)
    a.reduce(2.0)
    b.accumulator.skip_gradients()
    c.accumulator.skip_gradients()
    want(members)  # for the second round
    b.reduce(4.0)
    assert a.accumulator.wants_gradients()  # a computes from here on
    c.close()  # in the new epoch the contributions of a and b are carried over, and suffice
    run([b], b.accumulator.has_gradients)
    assert b.parameters[0].grad.tolist() == [3, 3, 3]
    if late == "contribution":
        a.reduce(8.0)
    else:
        a.accumulator.skip_gradients()
    with pytest.raises(RuntimeError, match="no gradients are wanted"):
        a.accumulator.skip_gradients()
    have([a])
    assert a.parameters[0].grad.tolist() == [3, 3, 3]
    for member in (a, b):
        member.step()
    want([a, b])
    a.reduce(2.0, 1)
    b.reduce(6.0, 2)
    have([a, b])
    for member in (a, b):
        assert member.parameters[0].grad.tolist() == [4, 4, 4]
        stats = member.accumulator.get_gradient_stats()
        assert stats == {"num_gradients": 2, "num_skipped": 0, "batch_size": 3}


def test_a_member_that_does_not_answer_counts_as_skipping(join):
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


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_full_speed_after_a_pause_of_a_program_that_contributes_once(join, skips, key):
    """Both contributions are needed for a step, so each waits for the other's, but not for a second one."""
    members = join("a", timeout=1.0), join("b", timeout=1.0)
    for member in members:
        member.accumulator.set_virtual_batch_size(64)
    gather(members)
    a, _b = programs = [Once(member, key) for member in members]
    run(programs, lambda: a.accumulator.model_version() >= 10)
    run([a], skips)  # b pauses for longer than the time-out
    paused_at = a.accumulator.model_version()
    run(programs, lambda: a.accumulator.model_version() > paused_at + 1)
    before = skips()
    run(programs, lambda: a.accumulator.model_version() > paused_at + 50)
    assert skips() == before
    want(members)
    assert torch.equal(members[0].parameters[0], members[1].parameters[0])


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_full_speed_after_a_second_member_has_joined(join, skips, key):
    """The first one's contribution to the old epoch and its next one are for the same version."""
    members = [join("a", timeout=60.0)]
    members[0].accumulator.set_virtual_batch_size(64)
    gather(members)
    a = Once(members[0], key)
    run([a], lambda: a.done is not None)  # half of the virtual batch
    members.append(join("b", timeout=60.0))
    members[1].accumulator.set_virtual_batch_size(64)
    gather(members)
    programs = [a, Once(members[1], key)]
    run([a], lambda: key(members[0]) == a.done)
    run(programs, lambda: members[1].accumulator.model_version() >= 50)
    assert skips() == []


def test_a_replica_that_differs_adopts_the_leaders_model(join, monkeypatch):
    monkeypatch.setattr("moolib.accumulator.rounds.CHECK_INTERVAL", 3)
    monkeypatch.setattr("moolib.accumulator.accumulator.CHECK_INTERVAL", 3)
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
            b.step()  # the round that shows the difference may complete the leader's step
        return len(a.states) == 2

    run(members, replaced)
    assert torch.equal(a.parameters[0], b.parameters[0])
    assert len(a.states) == 2 and b.states == []


def test_the_leader_sends_its_buffers_from_time_to_time(join, monkeypatch):
    monkeypatch.setattr("moolib.accumulator.accumulator.SHARE_INTERVAL", 0.0)
    members = join("a", buffers=[torch.zeros(2)]), join("b", buffers=[torch.zeros(2)])
    gather(members)
    want(members)
    a, b = sorted(members, key=lambda m: m.accumulator.is_leader())
    b.buffers[0].fill_(5)
    for member in members:
        member.reduce(1.0)
    have(members)
    assert a.buffers[0].tolist() == [5, 5]
