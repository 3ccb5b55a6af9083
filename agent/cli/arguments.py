"""Command lines of the tools that use a trained policy: `key=value`, or the same as `--key value`.

A frozen dataclass is the list of keys, with their types and defaults. Of a true-or-false key the name alone,
`--key`, means true.
"""

from __future__ import annotations

import sys
import typing
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from agent.cli import interrupt
from agent.errors import CheckpointError, ConfigError, RenderError
from envs.schema import parse

Options = TypeVar("Options")


def options(kind: type[Options], arguments: Sequence[str]) -> Options:
    """The options that a command line gives.

    Args:
        kind: Dataclass of the options; every field has a default.
        arguments: The command line without the program.

    Raises:
        ConfigError: an unknown key, or a value that is not allowed; one line.
    """
    values: dict[str, Any] = {name: getattr(kind, name) for name in _names(kind)}
    try:
        values |= dict(OmegaConf.from_dotlist(_dotlist(kind, list(arguments))))
        return parse(kind, values, "")
    except (ValueError, OmegaConfBaseException, YAMLError) as error:
        raise ConfigError(" ".join(str(error).split())) from None


def _dotlist(kind: type, arguments: list[str]) -> list[str]:
    """Every argument as `key=value`."""
    flags = {name for name, hint in typing.get_type_hints(kind).items() if hint is bool}
    pairs = []
    while arguments:
        argument = arguments.pop(0)
        name = argument.removeprefix("--")
        if "=" in argument:
            pairs.append(name)
        elif not argument.startswith("--"):
            raise ConfigError(f"{argument}: write options as key=value")
        elif name in flags:
            pairs.append(f"{name}=true")
        elif arguments and not arguments[0].startswith("--"):
            pairs.append(f"{name}={arguments.pop(0)}")
        else:
            raise ConfigError(f"{argument}: needs a value; allowed keys are {', '.join(_names(kind))}")
    return pairs


def _names(kind: Any) -> list[str]:
    return [field.name for field in fields(kind)]


def command(
    name: str, kind: type[Any], run: Callable[[Any], None], usage: str | None, arguments: Sequence[str]
) -> int:
    """Runs a tool and turns the user's mistakes into one line on stderr.

    Returns:
        The exit status: 0, or 2 after a wrong option, 1 after a checkpoint or file that cannot be used.
    """
    interrupt.raise_again()
    if {"-h", "--help"} & set(arguments):
        print(usage)
        return 0
    try:
        run(options(kind, arguments))
    except (ConfigError, CheckpointError, RenderError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    except KeyboardInterrupt:
        return 130
    return 0
