"""The Accumulator's rules for gradients, with members in one process and numbers computed by hand."""

import time

import pytest
import torch

import moolib
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


def test_gradients_weighted_by_batch_size(join):
    members = a, b = join("a", weighted=True), join("b", weighted=True)
    gather(members)
    want(members)
    a.reduce(1.0, batch_size=90)
    b.reduce(4.0, batch_size=10)
    have(members)
    for member in members:
        torch.testing.assert_close(member.parameters[0].grad, torch.full((3,), 1.3))


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


def test_gradients_that_are_given_explicitly(join):
    members = a, b = join("a"), join("b")
    gather(members)
    for step in range(3):
        want(members)
        given = torch.full((3,), 1.0 + step)
        a.accumulator.reduce_gradients(1, [given])
        b.reduce(2.0)
        assert given.tolist() == [1 + step] * 3
        have(members)
        for member in members:
            assert member.parameters[0].grad.tolist() == [(3 + step) / 2] * 3
            member.step()
    want(members)
    with pytest.raises(ValueError, match="shape"):
        a.accumulator.reduce_gradients(1, [torch.zeros(2)])
    for member in members:
        member.accumulator.skip_gradients()  # the rejected gradients did not count
