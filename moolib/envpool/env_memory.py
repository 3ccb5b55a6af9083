"""The memory that an `EnvPool` shares with its worker processes.

It is an anonymous file: it has no name, so nothing can leak, and the system frees it with the last process
that maps it. Each batch has one array `[batch_size, …]` per field; both sides compute the same offsets from
the same description.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from typing import NamedTuple

import numpy as np

ALIGN = 64  # bytes; a cache line
ACTION = "@action"  # the field of the actions; no observation can have this name


class Field(NamedTuple):
    """One row of an array: a NumPy dtype string and a shape."""

    dtype: str
    shape: tuple[int, ...]


Fields = dict[str, Field]


def size(fields: Fields, batch_size: int, num_batches: int) -> int:
    """Return the number of bytes needed."""
    return num_batches * sum(_bytes(field, batch_size) for field in fields.values())


def create(nbytes: int) -> int:
    """Return the descriptor of a new anonymous file, which the caller must close."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("moolib-env-pool")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, nbytes)
    return descriptor


def arrays(descriptor: int, fields: Fields, batch_size: int, num_batches: int) -> list[dict[str, np.ndarray]]:
    """Return, for each batch, the arrays of its fields; they keep the memory alive."""
    memory = mmap.mmap(descriptor, size(fields, batch_size, num_batches))
    batches, offset = [], 0
    for _ in range(num_batches):
        batch = {}
        for name, field in fields.items():
            batch[name] = np.ndarray((batch_size, *field.shape), field.dtype, memory, offset)
            offset += _bytes(field, batch_size)
        batches.append(batch)
    return batches


def _bytes(field: Field, batch_size: int) -> int:
    nbytes = batch_size * math.prod(field.shape) * np.dtype(field.dtype).itemsize
    return nbytes + -nbytes % ALIGN
