"""Batcher against slicing and stacking done by hand."""

import asyncio
import threading
from collections import namedtuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from moolib.batcher import Batcher


def test_stack_makes_a_batch_along_a_new_dimension():
    batcher = Batcher(2)
    item = {"obs": [torch.arange(3), (torch.tensor(1.5),)], "name": "a"}
    batcher.stack(item)
    assert batcher.empty() and batcher.size() == 0
    item["obs"][0].fill_(9)  # the first input was copied at once
    batcher.stack({"obs": [torch.tensor([3, 4, 5]), (torch.tensor(2.5),)], "name": "b"})
    assert not batcher.empty() and batcher.size() == 1
    batch = batcher.get()
    assert batch["obs"][0].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert isinstance(batch["obs"][1], tuple) and batch["obs"][1][0].tolist() == [1.5, 2.5]
    assert batch["name"] == "a"


@pytest.mark.parametrize("dim, shape", [(0, (2, 3, 4)), (1, (3, 2, 4)), (-1, (3, 4, 2)), (-2, (3, 2, 4))])
def test_stack_dimensions(dim, shape):
    batcher = Batcher(2, dim=dim)
    a, b = torch.randn(3, 4), torch.randn(3, 4)
    batcher.stack(a)
    batcher.stack(b)
    batch = batcher.get()
    assert batch.shape == shape
    assert torch.equal(batch, torch.stack([a, b], dim))


def test_cat_carries_leftovers_and_one_input_can_fill_several_batches():
    batcher = Batcher(4, dim=1)
    batcher.cat(torch.arange(3).view(1, 3))
    batcher.cat(torch.arange(3, 13).view(1, 10))
    assert batcher.size() == 3
    assert [batcher.get().tolist() for _ in range(3)] == [[[0, 1, 2, 3]], [[4, 5, 6, 7]], [[8, 9, 10, 11]]]
    batcher.cat(torch.tensor([[13, 14, 15]]))
    assert batcher.get().tolist() == [[12, 13, 14, 15]]


def test_numpy_arrays_and_named_tuples():
    pair = namedtuple("pair", "x y")
    batcher = Batcher(2)
    for i in range(2):
        batcher.stack(pair(np.full(2, i, np.float32), np.array(i, np.int16)))
    batch = batcher.get()
    assert isinstance(batch, pair)
    assert batch.x.dtype == torch.float32 and batch.x.tolist() == [[0, 0], [1, 1]]
    assert batch.y.dtype == torch.int16 and batch.y.tolist() == [0, 1]


def test_gradients_reach_the_inputs():
    batcher = Batcher(3)
    x, y = torch.ones(2, requires_grad=True), torch.ones(4, requires_grad=True)
    batcher.cat(x)
    batcher.cat(y)
    (batcher.get() * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    batcher.cat(torch.zeros(0))
    assert x.grad.tolist() == [1, 2]
    assert y.grad.tolist() == [3, 0, 0, 0]


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(1, 7),
    lengths=st.lists(st.integers(0, 15), max_size=8),
    dim=st.sampled_from([0, 1, -1, -2]),
)
def test_cat_is_a_cut_of_the_whole_sequence(size, lengths, dim):
    total = sum(lengths)
    whole = torch.arange(total * 2).view(total, 2).movedim(0, dim)
    batcher, start = Batcher(size, dim=dim), 0
    for length in lengths:
        part = whole.narrow(dim, start, length)
        batcher.cat({"x": part, "y": [part.float()]})
        start += length
    assert batcher.size() == total // size
    for i in range(total // size):
        batch, expected = batcher.get(), whole.narrow(dim, i * size, size)
        assert torch.equal(batch["x"], expected) and torch.equal(batch["y"][0], expected.float())
    assert batcher.empty()


@settings(max_examples=40, deadline=None)
@given(size=st.integers(1, 5), count=st.integers(0, 12), dim=st.integers(-3, 2))
def test_stack_groups_items_in_order(size, count, dim):
    items = [torch.full((2, 3), i) for i in range(count)]
    batcher = Batcher(size, dim=dim)
    for item in items:
        batcher.stack(item)
    for start in range(0, count - size + 1, size):
        assert torch.equal(batcher.get(), torch.stack(items[start : start + size], dim))
    assert batcher.empty()


def stacked(value):
    batcher = Batcher(3)
    batcher.stack(value)
    return batcher


@pytest.mark.parametrize(
    "first, second, message",
    [
        (
            {"a": {"b": torch.ones(2)}},
            {"a": {"b": torch.ones(3)}},
            r"a\.b has shape \[3\], a batch is \[3, 2\]",
        ),
        (
            {"a": torch.ones(2)},
            {"a": torch.ones(2).long()},
            "a has dtype torch.int64, the batch torch.float32",
        ),
        ({"a": torch.ones(2)}, {"b": torch.ones(2)}, "a is missing, b is new"),
        ([torch.ones(2)], [1], "0 is int, the batch's is a tensor"),
        ([1], [torch.ones(2)], "0 is a tensor, the batch's is int"),
    ],
)
def test_inputs_that_do_not_fit_are_refused_and_change_nothing(first, second, message):
    batcher = stacked(first)
    with pytest.raises(ValueError, match=message):
        batcher.stack(second)
    batcher.stack(first)
    batcher.stack(first)
    assert batcher.size() == 1


def test_other_errors():
    with pytest.raises(ValueError, match="size must be at least 1, not 0"):
        Batcher(0)
    with pytest.raises(ValueError, match="cat after stack"):
        stacked(torch.ones(1)).cat(torch.ones(1))
    with pytest.raises(ValueError, match="no dimension 2"):
        Batcher(2, dim=2).stack(torch.ones(1))
    with pytest.raises(ValueError, match="no dimension 0"):
        Batcher(2).cat({"x": torch.tensor(1.0)})
    with pytest.raises(ValueError, match=r"lengths along dimension 0 differ: a 1, b 2"):
        Batcher(2).cat({"a": torch.ones(1), "b": torch.ones(2)})
    with pytest.raises(ValueError, match="at least one tensor"):
        Batcher(2).cat({"a": 1})


def test_get_waits_for_a_batch_in_threads_and_in_asyncio():
    batcher = Batcher(1)
    threading.Timer(0.05, batcher.stack, [torch.tensor(1)]).start()
    assert batcher.get().tolist() == [1]

    async def wait():
        threading.Timer(0.05, batcher.stack, [torch.tensor(2)]).start()
        return await asyncio.wait_for(batcher, 5)

    async def give_up():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(batcher, 0.05)

    assert asyncio.run(wait()).tolist() == [2]
    asyncio.run(give_up())
    batcher.stack(torch.tensor(3))  # nobody waits for it any more, so it is kept
    assert batcher.get().tolist() == [3]
