"""The command line that all commands share: options, help, errors and Ctrl-C.

A frozen dataclass declares the options of a command, one field each, with `option(default, help)`. On the
command line `key=value`, `--key value` and `--key=value` mean the same; `--key` alone sets a true-or-false
option. A key that is a Python keyword has an underscore behind it in the dataclass: `from_`.

The exit status of every command is 0 for success, 1 if something could not be used or done, 2 for a wrong
command line or setting, and 130 after Ctrl-C.

This module imports the standard library alone: `agent/__init__.py` runs it before anything else, and
`agent.doctor` must start where other packages are broken.
"""

from __future__ import annotations

import math
import signal
import sys
import textwrap
import types
import typing
from collections.abc import Callable, Container, Sequence
from dataclasses import field, fields
from typing import Annotated, Any, Literal, TypeVar

from agent.errors import ConfigError, UserError
from moolib import output

T = TypeVar("T")
WIDTH = 110  # characters of a line of help
INTERRUPTED = 130  # exit status after Ctrl-C: 128 + SIGINT, as of a shell


# ---------------------------------------------------------------------------------------- options


def option(default: T, description: str, *, positional: bool = False) -> T:
    """Declare an option of a command as a field of its dataclass.

    Args:
        default: Its value if the command line does not give it.
        description: What `--help` says of it.
        positional: The first argument may give it without its key.
    """
    return field(default=default, metadata={"description": description, "positional": positional})


def parse(kind: type[T], arguments: Sequence[str]) -> T:
    """Return the options that a command line gives.

    Args:
        kind: Dataclass of the options; every field has a default.
        arguments: The command line without the program.

    Raises:
        ConfigError: a key is unknown, or its value is not allowed.
    """
    declared: Any = kind
    hints = typing.get_type_hints(kind, include_extras=True)
    kinds = {one.name.removesuffix("_"): hints[one.name] for one in fields(declared)}
    names = {one.name.removesuffix("_"): one.name for one in fields(declared)}
    words, values = list(arguments), {}
    positional = [one.name for one in fields(declared) if one.metadata.get("positional")]
    if positional and words and "=" not in words[0] and not words[0].startswith("-"):
        words.insert(0, f"{positional[0]}={words.pop(0)}")
    while words:
        key, text = _pair(words, kinds)
        values[names[key]] = _convert(kinds[key], key, text)
    return kind(**values)


def _pair(words: list[str], kinds: dict[str, Any]) -> tuple[str, str]:
    """Take the next key and its value from the command line."""
    word = words.pop(0)
    key, equals, text = word.removeprefix("--").partition("=")
    if not equals and not word.startswith("--"):
        raise ConfigError(f"{word}: write options as key=value")
    if key not in kinds:
        raise ConfigError(f"{word.removeprefix('--')}: unknown key; allowed are {', '.join(kinds)}")
    if equals:
        return key, text
    if kinds[key] is bool:
        return key, "true"
    if words and not words[0].startswith("--"):
        return key, words.pop(0)
    raise ConfigError(f"{word}: needs a value, as in {key}=value")


def _convert(kind: Any, key: str, text: str) -> Any:
    """Return the text as a value of the annotated type `kind`."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        value, allowed = _convert(args[0], key, text), args[1]
        if value not in allowed:
            raise ConfigError(f"{key}={value!r}: must be {_describe(allowed)}")
        return value
    if origin is Literal:
        if text not in args:
            raise ConfigError(f"{key}={text!r}: must be one of {', '.join(args)}")
        return text
    if origin in (types.UnionType, typing.Union):
        (other,) = (arg for arg in args if arg is not type(None))
        return None if text in ("", "null") else _convert(other, key, text)
    if origin is tuple:
        return _convert_tuple(args, key, text)
    return _convert_scalar(kind, key, text)


def _convert_tuple(args: tuple[Any, ...], key: str, text: str) -> tuple[Any, ...]:
    """Return `[a,b,…]`, the brackets of which may be missing, as a tuple."""
    items = [item.strip() for item in text.removeprefix("[").removesuffix("]").split(",")]
    if args[-1] is not Ellipsis and len(items) != len(args):
        raise ConfigError(f"{key}={text}: must be a list of {len(args)} numbers")
    return tuple(_convert(args[0], f"{key}[{i}]", item) for i, item in enumerate(items))


def _convert_scalar(kind: Any, key: str, text: str) -> Any:
    words = {float: "a number", int: "a whole number", bool: "true or false"}
    try:
        value = {"true": True, "false": False}[text.lower()] if kind is bool else kind(text)
    except (KeyError, ValueError):
        raise ConfigError(f"{key}={text!r}: must be {words[kind]}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{key}={text!r}: must be finite")
    return value


def _describe(allowed: Container[Any]) -> str:
    """Return the allowed values in words: of a range, or the text of an `envs.schema.Bounds`."""
    if isinstance(allowed, range):
        return f"from {allowed.start} to {allowed.stop - 1}"
    return str(allowed)


# ---------------------------------------------------------------------------------------- help


def help_text(documentation: str | None, kind: type[Any]) -> str:
    """Return the text of `--help`: the documentation of a command's module, then its options."""
    shown = [one for one in fields(kind) if "description" in one.metadata]
    if not shown:
        return documentation or ""
    width = max(len(one.name) for one in shown) + 2
    entries = []
    for one in shown:
        text = one.metadata["description"]
        if one.default is not None and one.default is not False and one.default != "":
            text += f" (default: {_literal(one.default)})"
        name = f"    {one.name.removesuffix('_'):<{width}}"
        entries.append(textwrap.fill(text, WIDTH, initial_indent=name, subsequent_indent=" " * len(name)))
    head = "Options, as key=value or --key value:"
    return "\n".join([(documentation or "").rstrip(), "", head, "", *entries])


def _literal(value: Any) -> str:
    """Return a default value as one would type it."""
    if isinstance(value, tuple):
        return f"[{','.join(map(_literal, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


# ---------------------------------------------------------------------------------------- running


def command(
    name: str,
    kind: type[T],
    run: Callable[[T], int | None],
    documentation: str | None,
    arguments: Sequence[str] | None = None,
) -> int:
    """Run a command: parse its options, call it, and turn the user's mistakes into one line on stderr.

    Args:
        name: The command, as messages begin with it.
        kind: Dataclass of its options.
        run: What it does; returns an exit status, or None for 0.
        documentation: The documentation of its module, for `--help`.
        arguments: The command line without the program; None takes that of the process.

    Returns:
        The exit status.
    """
    given = sys.argv[1:] if arguments is None else arguments
    if wants_help(given):
        print(help_text(documentation, kind))
        return 0
    return guard(name, lambda: run(parse(kind, given)))


def wants_help(arguments: Sequence[str]) -> bool:
    """Return whether a command line asks for help."""
    return not {"-h", "--help"}.isdisjoint(arguments)


def guard(name: str, action: Callable[[], int | None], *others: type[Exception]) -> int:
    """Call `action`; end in one line on stderr where the user can mend what went wrong.

    Args:
        name: What the line begins with.
        action: Returns an exit status, or None for 0.
        others: Further exceptions, of other packages, that end it with status 1.

    Returns:
        The exit status.
    """
    expected: tuple[type[Exception], ...] = (UserError, OSError, *others)
    raise_keyboard_interrupt()
    with output.tolerated():
        try:
            return action() or 0
        except BrokenPipeError:  # the reader of our output has enough
            return UserError.status
        except expected as error:
            return complain(name, error)
        except KeyboardInterrupt:
            return INTERRUPTED


def complain(name: str, error: Exception) -> int:
    """Print an error as one line on stderr; return the exit status that it stands for."""
    text = str(error)
    if isinstance(error, OSError) and error.filename and error.strerror:
        text = f"{error.filename}: {error.strerror}"
    output.say(f"{name}: {' '.join(text.split())}", sys.stderr)
    return error.status if isinstance(error, UserError) else UserError.status


# ---------------------------------------------------------------------------------------- Ctrl-C


def end_quietly_while_importing() -> None:
    """Let the system end the process on Ctrl-C until `raise_keyboard_interrupt`.

    `python -m agent.NAME` imports for seconds before its `main` runs. Python would answer a Ctrl-C in that
    time with a traceback from the middle of some library. Nothing changes where another program imports
    `agent`.
    """
    finding_module = sys.argv[:1] == ["-m"]  # runpy leaves this there until it has found the module
    if finding_module and any(argument.startswith("agent.") for argument in sys.orig_argv):
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_keyboard_interrupt() -> None:
    """Turn Ctrl-C into `KeyboardInterrupt` again, now that a command has started."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
