"""Reductions of small values, through a broker in the same process."""

import numpy as np
import pytest
import torch

from tests.moolib.groups import gather


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


def test_an_operation_is_applied_in_the_order_of_the_members(peers):
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
