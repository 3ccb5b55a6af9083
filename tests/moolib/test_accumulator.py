"""The Accumulator's rules for gradients, with members in one process and numbers computed by hand."""

import time

import pytest
import torch

import moolib
from moolib.rounds import MIN_SPLIT
from rigs.local_members import gather, have, want


def test_one_peer_alone_that_owns_its_rpc(address):
    p = torch.zeros(2, requires_grad=True)
    accumulator = moolib.Accumulator("model", [p], [])
    accumulator.connect(address)
    assert not accumulator.connected() and accumulator.get_leader() == ""
    deadline = time.monotonic() + 10
    while accumulator.model_version() < 50 and time.monotonic() < deadline:
        accumulator.update()
        assert not accumulator.wants_state() and not accumulator.has_new_state()
        if accumulator.has_gradients():
            assert p.grad.tolist() == [2, 2]
            assert accumulator.get_gradient_stats() == {"num_gradients": 1, "num_skipped": 0, "batch_size": 7}
            accumulator.zero_gradients()
        elif accumulator.wants_gradients():
            p.grad = torch.full((2,), 2.0)
            accumulator.reduce_gradients(7)
            assert p.grad.tolist() == [0, 0]
    assert accumulator.model_version() == 50
    assert accumulator.is_leader() and accumulator.connected()


def test_gradients_are_the_mean_over_contributions(join):
    a, b, c = members = [join(name) for name in "abc"]
    gather(members)
    want(members)
    a.reduce(1.0, batch_size=90)
    b.reduce(4.0, batch_size=10)
    c.accumulator.skip_gradients()
    have(members)
    for member in members:
        assert member.parameters[0].grad.tolist() == [2.5, 2.5, 2.5]
        stats = member.accumulator.get_gradient_stats()
        assert stats == {"num_gradients": 2, "num_skipped": 1, "batch_size": 100}
        assert member.accumulator.model_version() == 1
        assert not member.accumulator.wants_gradients()
        member.step()
        assert member.parameters[0].grad.tolist() == [0, 0, 0]


@pytest.mark.parametrize("size", [2, 3])
def test_gradients_of_a_large_model(join, size):
    """Between two members they are reduced in two parts."""
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


def test_gradients_weighted_by_batch_size(join):
    members = a, b = join("a", weighted=True), join("b", weighted=True)
    gather(members)
    want(members)
    a.reduce(1.0, batch_size=90)
    b.reduce(4.0, batch_size=10)
    have(members)
    for member in members:
        torch.testing.assert_close(member.parameters[0].grad, torch.full((3,), 1.3))


def test_counts_go_on_until_the_virtual_batch_is_full(join):
    members = a, b = join("a"), join("b")
    for member in members:
        member.accumulator.set_virtual_batch_size(25)
    gather(members)
    want(members)
    a.reduce(1.0, 10)
    assert not a.accumulator.wants_gradients()  # once per count
    with pytest.raises(RuntimeError, match="reduce_gradients"):
        a.reduce(1.0, 10)
    with pytest.raises(RuntimeError, match="skip_gradients"):
        a.accumulator.skip_gradients()
    b.accumulator.skip_gradients()
    want(members)  # 10 of 25
    a.accumulator.skip_gradients()
    b.accumulator.skip_gradients()
    want(members)  # a count of skips alone
    a.reduce(2.0, 10)
    b.reduce(6.0, 10)
    have(members)  # 30 of 25: the overshoot is at most one contribution of each
    for member in members:
        assert member.parameters[0].grad.tolist() == [3, 3, 3]
        stats = member.accumulator.get_gradient_stats()
        assert stats == {"num_gradients": 3, "num_skipped": 3, "batch_size": 30}


@pytest.mark.parametrize("counts", [1, 3])
def test_the_expected_number_of_counts_changes_nothing(join, counts):
    """From the third step on, the gradients travel with the last count that is expected."""
    members = a, b = join("a"), join("b")
    for member in members:
        member.accumulator.set_virtual_batch_size(2 * counts)
    gather(members)
    for step in range(6):
        last, given = step == 5, []
        for count in range(counts + last):
            want(members)
            a.reduce(step + count)
            given.append(step + count)
            if last and count == counts - 1:
                b.accumulator.skip_gradients()  # one too few: the last step needs a count more than expected
            else:
                b.reduce(1.0)
                given.append(1.0)
        have(members)
        for member in members:
            assert member.parameters[0].grad.tolist() == pytest.approx([sum(given) / len(given)] * 3)
            assert member.accumulator.get_gradient_stats()["num_gradients"] == len(given)
            member.step()


def test_missing_frozen_and_mixed_gradients(join):
    def parameters():
        return (
            torch.zeros(2, requires_grad=True),
            torch.zeros(2, dtype=torch.bfloat16, requires_grad=True),
            torch.ones(2, requires_grad=False),
            torch.zeros(2, dtype=torch.float64, requires_grad=True),
        )

    members = a, b = join("a", *parameters()), join("b", *parameters())
    gather(members)
    want(members)
    a.parameters[0].grad = torch.full((2,), 3.0)
    a.parameters[1].grad = torch.full((2,), 1.0, dtype=torch.bfloat16)
    b.parameters[1].grad = torch.full((2,), 2.0, dtype=torch.bfloat16)
    for member in members:
        member.accumulator.reduce_gradients(1)
    have(members)
    for member in members:
        one, two, frozen, nobody = (p.grad for p in member.parameters)
        assert one.tolist() == [1.5, 1.5]
        assert two.dtype == torch.bfloat16 and two.tolist() == [1.5, 1.5]
        assert frozen is None and nobody is None
        member.accumulator.zero_gradients()
    for member in members:  # set_to_none
        for p in member.parameters:
            p.grad = None
    want(members)
    a.parameters[3].grad = torch.full((2,), 1 / 3, dtype=torch.float64)
    for member in members:
        member.accumulator.reduce_gradients(1)
    have(members)
    assert b.parameters[3].grad.tolist() == [1 / 6, 1 / 6]
    assert b.parameters[0].grad is None


def test_parallel_gradients(join):
    a, b = members = join("a"), join("b")
    for member in members:
        member.accumulator.set_parallel_gradients(2)
        member.accumulator.set_virtual_batch_size(2)
    gather(members)
    for version in range(1, 6):  # a keeps two under way, b waits for each result
        while a.accumulator.wants_gradients():
            a.reduce(1.0)
        want([b])
        b.reduce(3.0)
        have(members)
        for member in members:
            assert member.parameters[0].grad.tolist() == [2, 2, 2]
            assert member.accumulator.model_version() == version
            member.step()


def test_bad_arguments(join):
    a = join("a")
    for size in (0, -1, 2**24 + 1):
        with pytest.raises(ValueError, match=str(size)):
            a.accumulator.set_virtual_batch_size(size)
    with pytest.raises(ValueError, match="at least 1, not 0"):
        a.accumulator.set_parallel_gradients(0)
    with pytest.raises(RuntimeError, match="group"):
        a.accumulator.connect("127.0.0.1:1")
    gather([a])
    want([a])
    with pytest.raises(ValueError, match="not 0"):
        a.accumulator.reduce_gradients(0)
    a.reduce(1.0)
    have([a])


def test_wait_returns_when_something_happens(join):
    a = join("a")
    gather([a])
    want([a])
    started = time.monotonic()
    a.accumulator.wait(0.05)
    assert time.monotonic() - started >= 0.05
    a.reduce(1.0)
    while not a.accumulator.has_gradients():
        a.accumulator.wait(10)
        a.accumulator.update()
    assert time.monotonic() - started < 5
