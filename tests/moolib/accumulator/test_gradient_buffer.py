"""Gradients that are views of flat buffers, against a plain model of the values that the program must see."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from moolib.accumulator.gradient_buffer import GradientLayout, describe
from moolib.limits import MAX_IDENTITY

SHAPES = ((2,), (3, 2), (4,))
INDEX, VALUE = st.integers(0, len(SHAPES) - 1), st.integers(-8, 8)
PRESENT = st.lists(st.booleans(), min_size=len(SHAPES), max_size=len(SHAPES))
OPERATIONS = st.one_of(
    st.tuples(st.just("set to none"), INDEX),
    st.tuples(st.just("put another"), INDEX, VALUE),
    st.tuples(st.just("backward"), INDEX, VALUE),
    st.tuples(st.just("contribute"), st.sampled_from([1.0, 3.0])),
    st.tuples(st.just("done with a contribution")),
    st.tuples(st.just("result"), VALUE, PRESENT),
    st.tuples(st.just("zero")),
)


class Program:
    """Three parameters, one of another dtype, and in `expected` the value that each gradient must have."""

    def __init__(self):
        dtypes = (torch.float32, torch.float32, torch.bfloat16)
        self.parameters = [
            torch.zeros(s, dtype=d, requires_grad=True) for s, d in zip(SHAPES, dtypes, strict=True)
        ]
        self.layout = GradientLayout([*self.parameters, torch.zeros(9)])  # a frozen one is left out
        self.expected = [None] * len(SHAPES)
        self.contributions = []  # (buffer, the value of each gradient in it)

    def run(self, operation, *arguments):
        getattr(self, operation.replace(" ", "_"))(*arguments)
        for p, value in zip(self.parameters, self.expected, strict=True):
            assert (p.grad is None) == (value is None)
            assert value is None or torch.equal(p.grad, torch.full_like(p, value))
        for buffer, values in self.contributions:
            for view, value in zip(buffer.views, values, strict=True):
                assert torch.equal(view, torch.full_like(view, value or 0))
            assert buffer.present.tolist() == [value is not None for value in values]

    def set_to_none(self, i):
        self.parameters[i].grad = self.expected[i] = None

    def put_another(self, i, value):
        self.parameters[i].grad, self.expected[i] = torch.full_like(self.parameters[i], value), value

    def backward(self, i, value):
        (self.parameters[i] * value).sum().backward()
        self.expected[i] = value + (self.expected[i] or 0)

    def contribute(self, weight):
        buffer = self.layout.read(weight)
        self.contributions.append((buffer, [None if v is None else weight * v for v in self.expected]))
        self.zero()

    def done_with_a_contribution(self):
        if self.contributions:
            buffer, _ = self.contributions.pop(0)
            buffer.storage.fill_(99)  # the next user may write to it
            self.layout.give_back(buffer)

    def result(self, value, present):
        buffer = self.layout.take()
        buffer.gradients.fill_(value)
        buffer.present.copy_(torch.tensor(present))
        self.layout.write(buffer)
        self.expected = [value if there else old for there, old in zip(present, self.expected, strict=True)]

    def zero(self):
        self.layout.zero()
        self.expected = [None if value is None else 0 for value in self.expected]


@settings(max_examples=150, deadline=None)
@given(st.lists(OPERATIONS, max_size=30))
def test_gradients_are_what_the_program_expects_whatever_it_does_with_them(operations):
    program = Program()
    for operation in operations:
        program.run(*operation)


def test_a_steady_loop_copies_nothing_zeroes_once_and_takes_no_new_memory():
    p = torch.zeros(4, requires_grad=True)
    layout = GradientLayout([p])
    (2 * p).sum().backward()
    seen, zeroed = set(), []
    for _ in range(10):
        contribution = layout.read(1.0)
        version = p.grad._version
        layout.zero()
        zeroed.append(p.grad._version > version)
        result = layout.take()
        result.storage.copy_(contribution.storage)
        layout.give_back(contribution)
        layout.write(result)
        assert p.grad is result.views[0]
        layout.zero()
        (2 * p).sum().backward()
        seen |= {contribution.storage.data_ptr(), result.storage.data_ptr()}
    assert len(seen) <= 3
    assert sum(zeroed) <= 2  # the gradients that wait for a result stay zero if nobody writes to them


def test_gradients_of_another_kind_are_copied_through_buffers_that_are_used_again():
    """bf16 stands in for a GPU here: its gradients cannot be views of a buffer either."""
    p = torch.zeros(4, dtype=torch.bfloat16, requires_grad=True)
    layout, seen = GradientLayout([p]), set()
    for i in range(10):
        p.grad = torch.full_like(p, i)
        contribution = layout.read(1.0)
        layout.zero()
        result = layout.take()
        result.storage.copy_(contribution.storage)
        layout.give_back(contribution)
        layout.write(result)
        assert p.grad.dtype == torch.bfloat16 and p.grad.tolist() == [i] * 4
        seen |= {contribution.storage.data_ptr(), result.storage.data_ptr()}
    assert len(seen) <= 3


def test_the_buffers_of_a_model_on_a_gpu_are_pinned(monkeypatch):
    made, zeros = [], torch.zeros
    monkeypatch.setattr(
        torch, "zeros", lambda *a, pin_memory=False, **k: made.append(pin_memory) or zeros(*a, **k)
    )

    class OnGpu(torch.nn.Parameter):
        is_cuda = True

    GradientLayout([torch.nn.Parameter(zeros(2))]).take()
    GradientLayout([torch.nn.Parameter(zeros(2)), OnGpu(zeros(2))]).take()
    assert made == [False, True]


def test_given_gradients_are_copied_and_the_parameters_left_alone():
    a, b = torch.zeros(2, requires_grad=True), torch.zeros(2, 2, requires_grad=True)
    layout = GradientLayout([a, b])
    result = layout.take()
    result.gradients.fill_(7.0)
    result.present.fill_(1.0)
    layout.write(result)
    given = torch.tensor([1.0, 2.0])
    contribution = layout.copy([given, None], 3.0)
    assert contribution is not result and a.grad is result.views[0]
    assert contribution.gradients.tolist() == [3, 6, 0, 0, 0, 0]
    assert contribution.present.tolist() == [1, 0]
    assert given.tolist() == [1, 2] and a.grad.tolist() == [7, 7] and b.grad.tolist() == [[7, 7], [7, 7]]


def test_given_gradients_use_the_same_buffers_again():
    p = torch.zeros(4, requires_grad=True)
    layout, seen = GradientLayout([p]), set()
    for i in range(10):
        contribution = layout.copy([torch.full((4,), float(i))], 1.0)
        result = layout.take()
        result.storage.copy_(contribution.storage)
        layout.give_back(contribution)
        layout.write(result)
        assert p.grad is result.views[0] and p.grad.tolist() == [i] * 4
        layout.zero()
        seen |= {contribution.storage.data_ptr(), result.storage.data_ptr()}
    assert len(seen) <= 3


@pytest.mark.parametrize(
    "shapes, message",
    [
        ([(2,)], "1 gradients for 2 parameters"),
        ([(2,), (3,), (1,)], "3 gradients for 2 parameters"),
        ([(2,), (1,)], r"gradient 1 has shape \[1\], its parameter \[3\]"),
    ],
)
def test_given_gradients_must_fit(shapes, message):
    layout = GradientLayout([torch.zeros(2, requires_grad=True), torch.zeros(3, requires_grad=True)])
    with pytest.raises(ValueError, match=message):
        layout.copy([torch.zeros(shape) for shape in shapes], 1.0)


def test_descriptions_of_large_models_are_short_enough_for_the_broker():
    shape = torch.empty(99_999, 99_999, 3, 3, dtype=torch.float8_e4m3fnuz, device="meta")
    one, other = ([shape] * count for count in (50_000, 50_001))
    assert len(describe(one, other, False)) < MAX_IDENTITY
    assert describe(one, other, False) != describe(other, one, False) != describe(other, other, False)
