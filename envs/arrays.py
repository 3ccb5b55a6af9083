"""The seam by which the task's terms are the same functions on NumPy arrays and on torch tensors.

The two speak nearly the same language: operators, slices, and functions of the same names. What a term needs
beside them is here. Terms stay within what both know, write no numbers where a mask says so (a device would
have to wait for the mask) and keep plain Python numbers, which take on the arrays' type.
"""

from functools import cache
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any  # np.ndarray, or torch.Tensor on any device
Random: TypeAlias = Any  # np.random.Generator, or one for a device with the same methods
Numbers: TypeAlias = tuple[float, ...]


def namespace(array: Array) -> Any:
    """The module with the functions for an array: ``numpy`` or ``torch``."""
    if isinstance(array, np.ndarray):
        return np
    import torch  # whoever has a tensor has torch: it costs a look-up, and NumPy's users never import it

    return torch


def constant(values: Numbers, like: Array) -> Array:
    """Numbers [n] of the type of ``like`` and where it is; not to be written to."""
    if isinstance(like, np.ndarray):
        return _numpy(values, like.dtype)
    return _torch(values, like.dtype, like.device)


def zeros(shape: tuple[int, ...], like: Array) -> Array:
    """Zeros of the type of ``like`` and where it is."""
    return np.zeros(shape, like.dtype) if isinstance(like, np.ndarray) else like.new_zeros(shape)


@cache
def _numpy(values: Numbers, dtype: np.dtype) -> np.ndarray:
    return np.array(values, dtype)


@cache  # without a bound: CUDA graphs hold addresses of what is in it
def _torch(values: Numbers, dtype: Any, device: Any) -> Any:
    import torch

    return torch.tensor(values, dtype=dtype, device=device)
