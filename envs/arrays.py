"""One array language for NumPy and torch, so that every term of a task is written once and runs on both.

The two libraries share operators, slices and many functions by name. ``Functions`` lists the functions that
terms may use, ``Random`` the draws. Terms keep to three rules: they use only what both libraries have, they
never index with a mask (a device would have to wait for its values), and they write plain Python numbers,
which take on the arrays' type.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import numpy as np

if TYPE_CHECKING:
    import torch

Array = TypeVar("Array", np.ndarray, "torch.Tensor")
"""A NumPy array, or a torch tensor on any device; the same one throughout a function or an object."""
Array_co = TypeVar("Array_co", np.ndarray, "torch.Tensor", covariant=True)
Array_contra = TypeVar("Array_contra", np.ndarray, "torch.Tensor", contravariant=True)

Numbers = tuple[float, ...]
Size = int | tuple[int, ...]


class Functions(Protocol[Array]):
    """The functions that NumPy and torch both have, under the same names and with the same meaning."""

    float32: Any
    int32: Any

    def abs(self, x: Array, /, *, out: Array | None = None) -> Array: ...
    def amax(self, x: Array, axis: int, /) -> Array: ...
    def arcsin(self, x: Array, /) -> Array: ...
    def arctan2(self, y: Array, x: Array, /) -> Array: ...
    def asarray(self, x: Array, /, *, dtype: Any) -> Array: ...
    def clip(self, x: Array, low: float, high: float, /, *, out: Array | None = None) -> Array: ...
    def cos(self, x: Array, /) -> Array: ...
    def einsum(self, subscripts: str, /, *operands: Array) -> Array: ...
    def exp(self, x: Array, /) -> Array: ...
    def hypot(self, x: Array, y: Array, /, *, out: Array | None = None) -> Array: ...
    def isfinite(self, x: Array, /) -> Array: ...
    def logical_and(self, x: Array, y: Array, /, *, out: Array | None = None) -> Array: ...
    def logical_or(self, x: Array, y: Array, /, *, out: Array | None = None) -> Array: ...
    def maximum(self, x: Array, y: Array, /) -> Array: ...
    def multiply(self, x: Array, y: float, /, *, out: Array | None = None) -> Array: ...
    def negative(self, x: Array, /, *, out: Array | None = None) -> Array: ...
    def ones_like(self, x: Array, /) -> Array: ...
    def sin(self, x: Array, /) -> Array: ...
    def sqrt(self, x: Array, /) -> Array: ...
    def stack(self, xs: list[Array], axis: int = 0, /) -> Array: ...
    def where(self, condition: Array, x: Array, y: Array, /) -> Array: ...
    def zeros_like(self, x: Array, /) -> Array: ...


class Random(Protocol[Array_co]):
    """The draws of ``np.random.Generator`` that a task uses; a device has a generator with the same ones."""

    def random(self, size: Size, dtype: Any = ..., /) -> Array_co:
        """Draw uniformly from [0, 1)."""

    def uniform(self, low: float | Numbers, high: float | Numbers, size: Size, /) -> Array_co:
        """Draw uniformly from [low, high); tuples run along the last axis."""

    def exponential(self, scale: float, size: Size, /) -> Array_co:
        """Draw exponentially distributed numbers with mean ``scale``."""

    def integers(self, low: int, high: int, size: int, /) -> Array_co:
        """Draw uniformly from low, …, high - 1."""


def namespace(array: Array) -> Functions[Array]:
    """Return the module with the functions for an array: ``numpy`` or ``torch``."""
    if isinstance(array, np.ndarray):
        return cast(Functions[Array], np)
    import torch  # loaded already, since there is a tensor; users of NumPy alone never import it

    return cast(Functions[Array], torch)


def constant(values: Numbers, like: Array) -> Array:
    """Return numbers [n] with the type and device of ``like``, cached; never write to them."""
    if isinstance(like, np.ndarray):
        return _numpy_constant(values, like.dtype)
    return _torch_constant(values, like.dtype, like.device)


def zeros(shape: tuple[int, ...], like: Array, dtype: str | None = None) -> Array:
    """Return zeros on the device of ``like``, and of its type unless ``dtype`` names another one."""
    if isinstance(like, np.ndarray):
        return np.zeros(shape, dtype or like.dtype)
    import torch

    return like.new_zeros(shape, dtype=getattr(torch, dtype) if dtype else None)


def write(target: Array, values: np.ndarray | Array) -> None:
    """Copy values, which may come from the host, into an array or tensor."""
    if isinstance(target, np.ndarray):
        target[...] = values
    else:
        import torch

        target.copy_(torch.as_tensor(values))


def to_host(values: Array) -> np.ndarray:
    """Return a copy as a NumPy array; waits for the device."""
    return np.array(values if isinstance(values, np.ndarray) else values.cpu().numpy())


@cache
def _numpy_constant(values: Numbers, dtype: np.dtype) -> np.ndarray:
    return np.array(values, dtype)


@cache  # never evicted: CUDA graphs hold the addresses of these tensors
def _torch_constant(values: Numbers, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    import torch

    return torch.tensor(values, dtype=dtype, device=device)
