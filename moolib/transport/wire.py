"""The wire format of `moolib`: frames, and the values inside them.

A frame is ``prefix | name | body | padding | payload``:

- the prefix (24 bytes, network order) holds the kind, the lengths of the other parts and the number of the
  call;
- the name is that of the function (UTF-8);
- the body is one msgpack value. Types that msgpack does not know travel as extension types: tuples, integers
  beyond 64 bits, NumPy scalars and, as (dtype, offset, shape) only, arrays and tensors;
- the payload holds the raw elements of the arrays and tensors, each at a multiple of 16 bytes.

A sender copies every tensor once, into the payload, so that the program may change it as soon as the call
has been made. A receiver copies none: its tensors are views of the frame. Every length is checked before
memory is reserved or read, and nothing is unpickled unless the program asked for it. `torch` is imported
only when a tensor arrives.
"""

from __future__ import annotations

import math
import pickle
import struct
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import msgpack
import numpy as np

PREFIX = struct.Struct("!BxHIQQ")  # kind, length of the name, of the body, of the payload, number of the call
GREET, PROVE, HELLO, WELCOME, REFUSE, RENAME, PING, PONG, CALL, REPLY, ERROR, NOTIFY = range(1, 13)

ALIGN = 16  # bytes; the widest element, complex128, has 16
MAX_NAME = 1 << 10  # bytes
MAX_BODY = 1 << 31  # bytes
MAX_PAYLOAD = 1 << 34  # bytes; the system reserves memory lazily, so a mere claim costs nothing
MAX_DEPTH = 100  # nested tuples
JOIN_BELOW = 1 << 14  # bytes; smaller payloads are sent together with their header

# Other dtypes (quantized ones, for example) crash torch when a tensor is made from bytes.
TENSOR_DTYPES = {"bool", "float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128"}
TENSOR_DTYPES |= {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
TENSOR_DTYPES |= {f"float8_{kind}" for kind in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")}
_TUPLE, _INT, _SCALAR, _ARRAY, _TENSOR, _PICKLE = range(1, 7)

Buffer = bytes | bytearray | memoryview
Reserve = Callable[[int, Callable[[memoryview], None]], int]
"""`reserve(nbytes, copy)` returns an offset of the payload, where `copy` will write the elements."""


class WireError(ValueError):
    """A frame that breaks the format; the connection it came from is closed."""


class Frame(NamedTuple):
    """One received frame; its value is decoded on demand."""

    kind: int
    call: int
    name: str
    body: memoryview
    payload: memoryview

    def value(self, allow_pickle: bool = False) -> Any:
        """Return the value of the body.

        Raises:
            WireError: The body or the payload is malformed.
        """
        return unpack(self.body, self.payload, allow_pickle)


def encode(
    kind: int, call: int = 0, name: str = "", value: Any = None, allow_pickle: bool = False
) -> list[Buffer]:
    """Return one frame as the buffers to send, in order.

    Raises:
        TypeError: The value holds something that cannot travel; the message names its type.
        ValueError: A part is too large or too deeply nested.
    """
    raw = name.encode()
    body, payload = pack(value, allow_pickle)
    if len(raw) > MAX_NAME or len(body) > MAX_BODY or len(payload) > MAX_PAYLOAD:
        raise ValueError(f"message to {name!r} is too large: {len(body)} + {len(payload)} bytes")
    head = PREFIX.pack(kind, len(raw), len(body), len(payload), call) + raw + body
    if not payload:
        return [head]
    head += bytes(-(len(raw) + len(body)) % ALIGN)
    return [head + payload] if len(payload) < JOIN_BELOW else [head, payload]


def frame_size(prefix: Buffer, limit: int) -> int:
    """Return the number of bytes that follow the prefix.

    Raises:
        WireError: Unknown kind, or a part beyond its bound (`limit` bytes for body and payload together).
    """
    kind, name, body, payload, _ = PREFIX.unpack(prefix)
    if not GREET <= kind <= NOTIFY or name > MAX_NAME or body > MAX_BODY or body + payload > limit:
        raise WireError(
            f"frame out of bounds: kind {kind}, name {name}, body {body}, payload {payload} bytes"
        )
    return int(name + body + (-(name + body) % ALIGN + payload if payload else 0))


def decode(prefix: Buffer, rest: memoryview) -> Frame:
    """Return the frame of a prefix and the `frame_size` bytes after it.

    Raises:
        WireError: The name is not UTF-8.
    """
    kind, name, body, payload, call = PREFIX.unpack(prefix)
    try:
        text = str(rest[:name], "utf-8")
    except UnicodeDecodeError as error:
        raise WireError("function name is not UTF-8") from error
    return Frame(kind, call, text, rest[name : name + body], rest[len(rest) - payload :])


def pack(value: Any, allow_pickle: bool = False) -> tuple[bytes, memoryview]:
    """Return (body, payload) of a value.

    Subclasses of list, tuple and dict travel as their base class, or pickled if that is allowed.

    Raises:
        TypeError, ValueError: As `encode`.
    """
    copies: list[tuple[int, Callable[[memoryview], None]]] = []
    size = depth = 0

    def reserve(nbytes: int, copy: Callable[[memoryview], None]) -> int:
        nonlocal size
        offset, size = size, size + nbytes + -nbytes % ALIGN
        if nbytes:
            copies.append((offset, copy))
        return offset

    def nested(items: list[Any]) -> bytes:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            raise ValueError(f"value is nested deeper than {MAX_DEPTH} tuples")
        data = dump(items)
        depth -= 1
        return data

    def default(obj: Any) -> Any:
        torch = sys.modules.get("torch")
        if type(obj) is tuple or (isinstance(obj, tuple) and not allow_pickle):
            return msgpack.ExtType(_TUPLE, nested(list(obj)))
        if torch is not None and isinstance(obj, torch.Tensor):
            return msgpack.ExtType(_TENSOR, dump(_describe_tensor(torch, obj, reserve)))
        if isinstance(obj, np.ndarray):
            return msgpack.ExtType(_ARRAY, dump(_describe_array(obj, reserve)))
        if isinstance(obj, np.generic):
            return msgpack.ExtType(_SCALAR, dump([_numpy_dtype(obj.dtype).str, obj.tobytes()]))
        if type(obj) is int:
            return msgpack.ExtType(_INT, obj.to_bytes(obj.bit_length() // 8 + 1, "big", signed=True))
        if allow_pickle:
            return msgpack.ExtType(_PICKLE, pickle.dumps(obj))
        if isinstance(obj, dict):
            return dict(obj)
        if isinstance(obj, list):
            return list(obj)
        raise TypeError(
            f"cannot send a {type(obj).__module__}.{type(obj).__qualname__}; see Rpc(allow_pickle=True)"
        )

    def dump(obj: Any) -> bytes:
        packed: bytes = msgpack.packb(obj, default=default, strict_types=True, unicode_errors="surrogatepass")
        return packed

    body = dump(value)
    if not size:
        return body, memoryview(b"")
    payload = np.empty(size, np.uint8).data
    for offset, copy in copies:
        copy(payload[offset:])
    return body, payload


def unpack(body: Buffer, payload: memoryview, allow_pickle: bool = False) -> Any:
    """Return the value of a body and its payload; arrays and tensors are views of the payload.

    Raises:
        WireError: Malformed, out of bounds, too deep, or pickled and not allowed.
    """
    depth = 0

    def hook(code: int, data: bytes) -> Any:
        nonlocal depth
        if code == _TUPLE:
            depth += 1
            if depth > MAX_DEPTH:
                raise WireError("nested too deeply")
            items = tuple(load(data))
            depth -= 1
            return items
        if code == _INT:
            return int.from_bytes(data, "big", signed=True)
        if code == _SCALAR:
            dtype, raw = load(data)
            return np.frombuffer(raw, _numpy_dtype(np.dtype(dtype)), 1)[0]
        if code == _ARRAY:
            return _read_array(payload, *load(data))
        if code == _TENSOR:
            return _read_tensor(payload, *load(data))
        if code == _PICKLE and allow_pickle:
            return pickle.loads(data)
        raise WireError(f"extension {code} is not known or not allowed")

    def load(data: Buffer) -> Any:
        return msgpack.unpackb(data, ext_hook=hook, strict_map_key=False, unicode_errors="surrogatepass")

    try:
        return load(body)
    except WireError:
        raise
    except Exception as error:  # NumPy, torch and msgpack raise various types for a malformed description
        raise WireError(f"malformed value: {error}") from error


def _numpy_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.hasobject or dtype.kind == "V":
        raise TypeError(f"cannot send NumPy dtype {dtype}")
    return dtype


def _describe_array(array: np.ndarray, reserve: Reserve) -> list[Any]:
    dtype, shape = _numpy_dtype(array.dtype), array.shape

    def copy(target: memoryview) -> None:
        np.ndarray(shape, dtype, target)[...] = array

    return [dtype.str, reserve(array.nbytes, copy), list(shape)]


def _describe_tensor(torch: Any, tensor: Any, reserve: Reserve) -> list[Any]:
    dtype = str(tensor.dtype).removeprefix("torch.")
    if tensor.layout is not torch.strided or dtype not in TENSOR_DTYPES:
        raise TypeError(f"cannot send a tensor of layout {tensor.layout}, dtype {tensor.dtype}")
    nbytes = tensor.numel() * tensor.element_size()

    def copy(target: memoryview) -> None:
        flat = torch.frombuffer(target, dtype=tensor.dtype, count=tensor.numel())
        flat.view(tensor.shape).copy_(tensor.detach())

    return [dtype, reserve(nbytes, copy), list(tensor.shape)]


def _checked(offset: int, shape: list[int], itemsize: int, payload: memoryview) -> int:
    """Return the number of elements, having checked that they lie in the payload."""
    if any(n < 0 for n in shape) or offset < 0 or offset + math.prod(shape) * itemsize > len(payload):
        raise WireError(f"array of shape {shape} at {offset} exceeds the payload of {len(payload)} bytes")
    return math.prod(shape)


def _read_array(payload: memoryview, dtype: str, offset: int, shape: list[int]) -> np.ndarray:
    kind = _numpy_dtype(np.dtype(dtype))
    count = _checked(offset, shape, kind.itemsize, payload)
    return np.ndarray(shape, kind, payload, offset) if count and kind.itemsize else np.empty(shape, kind)


def _read_tensor(payload: memoryview, dtype: str, offset: int, shape: list[int]) -> Any:
    import torch

    if dtype not in TENSOR_DTYPES:
        raise WireError(f"unknown dtype {dtype!r}")
    kind = getattr(torch, dtype)
    count = _checked(offset, shape, kind.itemsize, payload)
    if not count:
        return torch.empty(shape, dtype=kind)
    return torch.frombuffer(payload, dtype=kind, count=count, offset=offset).view(shape)
