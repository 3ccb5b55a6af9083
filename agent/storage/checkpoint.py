"""Checkpoints: one file that holds a nested structure of tensors and plain values, exactly.

The file is in the safetensors format, so that loading one never runs code from it and any tool of that format
can read the tensors. Its header's metadata are strings:

- `format`: always `herd-checkpoint`.
- `version`: of this layout, a whole number. A program reads its own version and those older ones that it
  knows.
- `tree`: JSON of the structure. None, bool, int, finite float, str and list stand for themselves. Everything
  else is an object with one entry: `{"dict": [[key, value], …]}`, `{"tuple": […]}`, `{"float": bits}`,
  `{"bytes": hex}`, and `{"tensor": name}`, `{"array": name}`, `{"scalar": name}` for tensors, NumPy arrays
  and NumPy scalars, whose contents are the tensor of that name.
- `digest`: SHA-256 over the version, the tree and all tensors. It detects damage; it is no signature.

Writing is atomic (`agent.storage.files`): whenever the writer is killed, the last complete checkpoint stays.
"""

import hashlib
import json
import math
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch

from agent.errors import CheckpointError
from agent.storage.files import write_atomic

FORMAT = "herd-checkpoint"
VERSION = 1
OLDEST_VERSION = 1  # that this program still reads

STORABLE = {  # the types that the safetensors format has a name for
    *(torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64),
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float8_e4m3fn, torch.float8_e5m2, torch.float16, torch.bfloat16, torch.float32, torch.float64),
    torch.complex64,
}

Tensors = dict[str, torch.Tensor]


def save(path: str | os.PathLike[str], values: Mapping[Any, Any]) -> None:
    """Write a checkpoint, in place of the one at `path` if there is one.

    Args:
        path: The file; its directory must exist.
        values: Nested dicts, lists and tuples of tensors, NumPy arrays and scalars, None, bool, int, float,
            str and bytes. Keys may be of these plain types or tuples of them. Subclasses are stored as the
            plain type; tensors as they are at the time of the call, without their device.

    Raises:
        TypeError: a value of another type; the message names it.
        CheckpointError: the file cannot be written, for example on a full disk.
    """
    tensors: Tensors = {}
    tree = json.dumps(_encode(values, "", tensors), separators=(",", ":"))
    metadata = {"format": FORMAT, "version": str(VERSION), "tree": tree}
    metadata["digest"] = content_digest(metadata, tensors)
    try:
        write_atomic(path, safetensors.torch.save(tensors, metadata))
    except OSError as error:
        raise CheckpointError(f"{path}: cannot write the checkpoint: {error.strerror}") from None


def load(path: str | os.PathLike[str]) -> dict[Any, Any]:
    """Read a checkpoint.

    Returns:
        The values given to `save`, equal bit for bit, with tensors on the CPU.

    Raises:
        CheckpointError: there is no such file, or it is truncated, damaged, foreign, or of a newer version.
    """
    if not Path(path).is_file():
        raise CheckpointError(f"{path}: there is no such checkpoint")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            _check_format(path, metadata)
            # Copies in torch's own memory: in the file they lie anywhere, and some kernels round by the
            # alignment, so that a resumed run would not always equal the uninterrupted one.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except (safetensors.SafetensorError, OSError) as error:
        raise CheckpointError(f"{path}: truncated or no checkpoint: {error}") from None
    if metadata.get("digest") != content_digest(metadata, tensors):
        raise CheckpointError(f"{path}: damaged: its contents do not match their digest")
    try:
        values: dict[Any, Any] = _decode(json.loads(metadata["tree"]), tensors)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: damaged: {type(error).__name__} in its structure: {error}") from None
    return values


def history(path: str | os.PathLike[str], version: int) -> Path:
    """Return the place of one model version's checkpoint: `checkpoint-v000123.safetensors` beside `path`."""
    path = Path(path)
    return path.with_name(f"{path.stem}-v{version:06d}{path.suffix}")


def _check_format(path: str | os.PathLike[str], metadata: Mapping[str, str]) -> None:
    """Raise CheckpointError unless this program can read the layout."""
    version = metadata.get("version", "")
    if metadata.get("format") != FORMAT or not version.isdecimal():
        raise CheckpointError(f"{path}: a safetensors file, but no checkpoint of this program")
    if int(version) > VERSION:
        raise CheckpointError(f"{path}: of format version {version}; this program reads up to {VERSION}")
    if int(version) < OLDEST_VERSION:
        raise CheckpointError(
            f"{path}: of format version {version}; this program reads none before {OLDEST_VERSION}"
        )


def content_digest(metadata: Mapping[str, str], tensors: Tensors) -> str:
    """Return the SHA-256 of everything that `load` uses, in hexadecimal digits."""
    digest = hashlib.sha256()
    for key in ("format", "version", "tree"):
        digest.update(f"{key}={metadata.get(key)}\n".encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        if tensor.numel():  # torch cannot view every empty tensor as bytes
            digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _encode(value: Any, name: str, tensors: Tensors) -> Any:
    """Return the JSON form of `value`; move its tensors to `tensors`.

    Args:
        value: The value to encode.
        name: Its place in the whole structure, for the names of tensors and for messages.
        tensors: Receives copies of tensors and arrays.
    """
    if isinstance(value, torch.Tensor):
        return {"tensor": _store(value.detach().to("cpu", copy=True), name, tensors)}
    if isinstance(value, np.ndarray | np.generic):
        kind = "array" if isinstance(value, np.ndarray) else "scalar"
        try:
            tensor = torch.from_numpy(np.array(value))
        except TypeError:
            raise TypeError(f"{name}: cannot store a NumPy array of dtype {value.dtype}") from None
        return {kind: _store(tensor, name, tensors)}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": struct.pack(">d", value).hex()}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, Mapping):
        keys = [_encode(key, _child(name, "key"), tensors) for key in value]
        items = [_encode(item, _child(name, key), tensors) for key, item in value.items()]
        return {"dict": list(zip(keys, items, strict=True))}
    if isinstance(value, list | tuple):
        items = [_encode(item, _child(name, index), tensors) for index, item in enumerate(value)]
        return items if isinstance(value, list) else {"tuple": items}
    raise TypeError(f"{name or 'checkpoint'}: cannot store a {type(value).__name__}")


def _child(name: str, key: Any) -> str:
    return f"{name}/{key}" if name else str(key)


def _store(tensor: torch.Tensor, name: str, tensors: Tensors) -> str:
    """Put a tensor into `tensors` under its name, or the next free one; return that."""
    if tensor.dtype not in STORABLE:
        raise TypeError(f"{name}: cannot store a tensor of dtype {tensor.dtype}")
    free = name
    while free in tensors:
        free += "'"
    tensors[free] = tensor.contiguous()
    return free


def _decode(node: Any, tensors: Tensors) -> Any:
    """Decode what `_encode` returns."""
    if isinstance(node, list):
        return [_decode(item, tensors) for item in node]
    if not isinstance(node, dict):
        return node
    ((kind, content),) = node.items()
    if kind == "dict":
        return {_decode(key, tensors): _decode(value, tensors) for key, value in content}
    if kind == "tuple":
        return tuple(_decode(item, tensors) for item in content)
    if kind == "float":
        return struct.unpack(">d", bytes.fromhex(content))[0]
    if kind == "bytes":
        return bytes.fromhex(content)
    if kind == "tensor":
        return tensors[content]
    if kind == "array":
        return tensors[content].numpy()
    if kind == "scalar":
        return tensors[content].numpy()[()]
    raise ValueError(f"unknown kind {kind!r}")
