"""Frozen dataclasses from nested plain dictionaries (as read from YAML), checked key by key.

The dataclass is the schema. Its annotations declare the allowed values: numbers, `Annotated[float,
Bounds(...)]`, texts, `Literal`s, tuples, mappings, further dataclasses, or None where the annotation allows
it. A key may be missing where the dataclass has a default. Every mistake raises a `ValueError` of one line
that names the key, its value and the allowed values.
"""

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal


@dataclass(frozen=True)
class Bounds:
    """The numbers low <= x <= high with x > above."""

    low: float = -math.inf
    high: float = math.inf
    above: float = -math.inf

    def __contains__(self, x: float) -> bool:
        return math.isfinite(x) and self.low <= x <= self.high and x > self.above

    def __str__(self) -> str:
        parts = ((">=", self.low), (">", self.above), ("<=", self.high))
        return " and ".join(["finite"] + [f"{sign} {x:g}" for sign, x in parts if math.isfinite(x)])


Count = Annotated[int, Bounds(low=1)]
Positive = Annotated[float, Bounds(above=0.0)]
NonNegative = Annotated[float, Bounds(low=0.0)]
Probability = Annotated[float, Bounds(low=0.0, high=1.0)]
Range = tuple[float, float]  # (low, high) with low <= high, as `parse` requires of every pair


def error(path: str, value: Any, allowed: str) -> ValueError:
    """Return the error for a wrong value, in one line."""
    return ValueError(f"{path}={value!r}: must be {allowed}")


def parse(kind: Any, value: Any, path: str) -> Any:
    """Check a value.

    Args:
        kind: The annotated type that it must have.
        value: The plain value.
        path: Its key, for messages.

    Returns:
        The value, with dictionaries turned into dataclasses and lists into tuples.

    Raises:
        ValueError: If it is wrong; one line.
    """
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        return _section(kind, value, path)
    if origin is Annotated:
        number = parse(args[0], value, path)
        if number not in args[1]:
            raise error(path, value, str(args[1]))
        return number
    if origin is Literal:
        if value not in args:
            raise error(path, value, "one of " + ", ".join(map(str, args)))
        return value
    if origin in (types.UnionType, typing.Union):
        return _union(args, value, path)
    if origin is tuple:
        return _tuple(args, value, path)
    if origin is Mapping:
        if not isinstance(value, Mapping) or not value:
            raise error(path, value, "a mapping with at least one key")
        return {str(key): parse(args[1], item, _join(path, key)) for key, item in value.items()}
    return _scalar(kind, value, path)


def _section(kind: Any, values: Any, path: str) -> Any:
    if not isinstance(values, Mapping):
        raise error(path, values, "a mapping of keys to values")
    hints = typing.get_type_hints(kind, include_extras=True)
    optional = {f.name for f in dataclasses.fields(kind) if f.default is not dataclasses.MISSING}
    for key in values:
        if key not in hints:
            raise ValueError(
                f"{_join(path, key)}={values[key]!r}: unknown key; allowed are {', '.join(hints)}"
            )
    for key in hints.keys() - optional:
        if key not in values:
            raise ValueError(f"{_join(path, key)}: missing key; {path or 'it'} needs {', '.join(hints)}")
    given = {key: hint for key, hint in hints.items() if key in values}
    return kind(**{key: parse(hint, values[key], _join(path, key)) for key, hint in given.items()})


def _union(args: tuple[Any, ...], value: Any, path: str) -> Any:
    if value is None and type(None) in args:
        return None
    listed = isinstance(value, list | tuple)
    options = [arg for arg in args if arg is not type(None)]
    fitting = [arg for arg in options if (typing.get_origin(arg) is tuple) == listed]
    return parse((fitting or options)[0], value, path)


def _tuple(args: tuple[Any, ...], value: Any, path: str) -> tuple[Any, ...]:
    length = None if args[-1] is Ellipsis else len(args)
    if not isinstance(value, list | tuple) or (length is not None and len(value) != length):
        raise error(path, value, "a list of numbers" if length is None else f"a list of {length} numbers")
    numbers = tuple(parse(args[0], item, f"{path}[{i}]") for i, item in enumerate(value))
    if length == 2 and numbers[0] > numbers[1]:
        raise error(path, value, "a list [low, high] with low <= high")
    return numbers


def _scalar(kind: type, value: Any, path: str) -> Any:
    if kind is float and type(value) is int:
        value = float(value)
    if kind is str and type(value) in (int, float):  # a name made of digits, which YAML reads as a number
        value = str(value)
    if type(value) is not kind:
        words = {float: "a number", int: "a whole number", bool: "true or false", str: "a text"}
        raise error(path, value, words[kind])
    if isinstance(value, float) and not math.isfinite(value):
        raise error(path, value, "finite")
    return value


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
