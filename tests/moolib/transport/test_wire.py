"""Values survive the wire bit for bit; malformed data is refused without harm."""

from __future__ import annotations

import collections
import contextlib
import math
import struct

import msgpack
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from moolib.transport import wire

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
    torch.uint16,
    torch.float8_e4m3fn,
]


def roundtrip(value, allow_pickle=False):
    joined = b"".join(bytes(part) for part in wire.encode(wire.CALL, 7, "f", value, allow_pickle))
    prefix, rest = joined[: wire.PREFIX.size], memoryview(bytearray(joined[wire.PREFIX.size :]))
    assert wire.frame_size(prefix, 1 << 30) == len(rest)
    frame = wire.decode(prefix, rest)
    assert (frame.kind, frame.call, frame.name) == (wire.CALL, 7, "f")
    return frame.value(allow_pickle)


def same(a, b) -> bool:
    """Equal in type, structure and value (NaN equals NaN, -0.0 does not equal 0.0)."""
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b) or (math.isnan(a) and math.isnan(b))
    return a == b


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
keys = st.text() | st.integers() | st.booleans() | st.tuples(st.integers(), st.text())
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(keys, inner),
    max_leaves=20,
)


@given(values)
@settings(max_examples=200, deadline=None)
def test_nested_values(value):
    assert same(roundtrip(value), value)


@pytest.mark.parametrize("number", [2**63 - 1, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**400, -(10**400)])
def test_integers_of_any_size(number):
    assert roundtrip(number) == number


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_of_any_dtype_are_bit_exact(dtype):
    raw = torch.randint(0, 2 if dtype is torch.bool else 256, (6 * 4 * dtype.itemsize,), dtype=torch.uint8)
    tensor = raw.view(dtype).view(6, 4)
    got = roundtrip([tensor])[0]
    assert got.dtype == dtype and got.shape == tensor.shape
    assert torch.equal(got.contiguous().view(torch.uint8), tensor.view(torch.uint8))


def test_tensors_of_any_stride():
    base = torch.arange(120, dtype=torch.float32).view(4, 5, 6)
    views = [
        base.mT,
        base[::2, 1:, ::3],
        base[1, 2, 3],
        base[:0],
        base.expand(2, 4, 5, 6),
        base[..., :1].expand(4, 5, 9),
    ]
    complex_ = torch.complex(base, -base)
    views += [complex_.conj(), complex_.imag]
    for got, want in zip(roundtrip(views), views, strict=True):
        assert torch.equal(got, want) and got.is_contiguous()


def test_gradients_do_not_travel_and_values_can_be_written():
    got = roundtrip(torch.ones(3, requires_grad=True))
    assert not got.requires_grad
    got += 1
    assert got.tolist() == [2, 2, 2]


def test_arrays_and_scalars():
    arrays = [
        np.arange(24).reshape(2, 3, 4)[:, ::-1],
        np.array(3.5),
        np.zeros((0, 3), np.int8),
        np.array(["a", "bcd"]),
        np.array([1.5], ">f4"),
        np.array(["2020-01-01"], "M8[D]"),
        np.array([b"xy"]),
        np.array([True]),
    ]
    for got, want in zip(roundtrip(arrays), arrays, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape and np.array_equal(got, want)
    for scalar in (np.float32(0.1), np.int64(-3), np.bool_(True), np.complex64(1 + 2j), np.float64(math.inf)):
        got = roundtrip(scalar)
        assert type(got) is type(scalar) and got == scalar


def test_the_sender_may_change_a_tensor_after_encoding():
    tensor = torch.zeros(100_000)
    parts = wire.encode(wire.CALL, value=tensor)
    tensor.fill_(1)
    assert not any(bytes(parts[1]))


def test_large_payloads_are_not_joined_and_are_received_in_place():
    parts = wire.encode(wire.CALL, value=np.arange(1 << 16))
    assert len(parts) == 2
    rest = memoryview(bytearray(b"".join(bytes(part) for part in parts))[wire.PREFIX.size :])
    got = wire.decode(bytes(parts[0][: wire.PREFIX.size]), rest).value()
    rest[-8:] = (77).to_bytes(8, "little")
    assert got[-1] == 77 and got.ctypes.data % wire.ALIGN == 0


def test_subclasses_travel_as_their_base_and_strangers_are_named():
    point = collections.namedtuple("point", "x y")
    assert same(roundtrip([point(1, 2), collections.OrderedDict(a=1)]), [(1, 2), {"a": 1}])
    for stranger, name in (
        (object(), "builtins.object"),
        (np.array([None]), "object"),
        ({1}, "builtins.set"),
    ):
        with pytest.raises(TypeError, match=name):
            wire.encode(wire.CALL, value=[stranger])
    with pytest.raises(TypeError, match="sparse"):
        wire.encode(wire.CALL, value=torch.eye(3).to_sparse())


def test_pickle_only_if_allowed():
    assert roundtrip({1, 2}, allow_pickle=True) == {1, 2}
    body, payload = wire.pack({1, 2}, allow_pickle=True)
    with pytest.raises(wire.WireError, match="not allowed"):
        wire.unpack(body, payload)


def test_depth_is_bounded_on_both_sides():
    value: tuple = ()
    for _ in range(wire.MAX_DEPTH + 1):
        value = (value,)
    with pytest.raises(ValueError, match="deeper"):
        wire.pack(value)
    data = msgpack.packb([])
    for _ in range(5000):
        data = msgpack.packb(msgpack.ExtType(1, data))
    with pytest.raises(wire.WireError):
        wire.unpack(data, memoryview(b""))


@pytest.mark.parametrize(
    "code, fields",
    [
        (4, ["<f4", 0, [1 << 40]]),
        (4, ["<f4", 8, [3]]),
        (4, ["<f4", -4, [1]]),
        (4, ["<f4", 0, [-1, -4]]),
        (4, ["O", 0, [1]]),
        (4, ["i4,O", 0, [1]]),
        (4, ["<f4", 0, [0, 1 << 62, 1 << 62]]),
        (4, ["<f4", 0, "ab"]),
        (4, [1]),
        (4, ["<f4", 0.5, [1]]),
        (5, ["float32", 0, [1 << 40]]),
        (5, ["load", 0, [1]]),
        (5, [["float32"], 0, [1]]),
        (5, ["qint8", 0, [1]]),
        (5, ["float32", 0, [-1]]),
        (3, ["O", b"12345678"]),
        (3, ["<f8", b"1"]),
        (6, [b"cos\nsystem\n(S'true'\ntR."]),
        (99, []),
    ],
)
def test_malformed_descriptions(code, fields):
    data = msgpack.packb(msgpack.ExtType(code, msgpack.packb(fields)))
    with pytest.raises(wire.WireError):
        wire.unpack(data, memoryview(bytearray(16)))


def test_frames_out_of_bounds():
    def prefix(kind=wire.CALL, name=0, body=1, payload=0):
        return wire.PREFIX.pack(kind, name, body, payload, 0)

    assert wire.frame_size(prefix(body=100), 100) == 100
    for bad in (
        prefix(0),
        prefix(255),
        prefix(name=1025),
        prefix(body=101),
        prefix(payload=100),
        prefix(payload=1 << 63),
    ):
        with pytest.raises(wire.WireError, match="out of bounds"):
            wire.frame_size(bad, 100)


@given(st.binary(max_size=200), st.integers(0, 64))
@settings(max_examples=500, deadline=None)
def test_random_bodies_only_raise_wire_errors(data, size):
    with contextlib.suppress(wire.WireError):
        wire.unpack(data, memoryview(bytearray(size)))
