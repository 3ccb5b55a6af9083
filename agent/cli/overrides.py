"""The settings of `agent.experiment`: Hydra composes `conf/` and the overrides of the command line."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from agent.cli import sweep
from agent.config import NAME_KEYS, PATH_KEYS, from_omegaconf
from agent.errors import ConfigError
from agent.storage.paths import CONF

SHORT_FLAGS = {"-c": "--cfg", "-p": "--package", "-cd": "--config-dir", "-cn": "--config-name"}
VALUED_FLAGS = {*SHORT_FLAGS.values(), "--config-path"}
PLAIN_FLAGS = {*sweep.FLAGS, "--run", "-r", "--resolve", "--info", "-i", "--hydra-help", "--version"}
LITERAL_KEYS = {*NAME_KEYS, *PATH_KEYS}  # keys whose values are text, whatever they look like
PLAIN = re.compile(r"(?!(null|true|false|nan|inf)\Z)[A-Za-z_][A-Za-z0-9_./-]*", re.IGNORECASE)
SWEEP_FUNCTION = re.compile(r"(choice|range|interval|glob|shuffle|sort|tag)\(.*\)")
QUOTED = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""")
VALUE_IN_SWEEP = re.compile(rf"(?:{QUOTED.pattern}|\$\{{[^}}]*\}}|[^,])+")  # up to a comma outside of these


def quote(text: str) -> str:
    """Return text as a quoted string of Hydra's grammar, in which only `${...}` keeps a meaning."""
    text = re.sub(r"(\\*)'", r"\1\1\'", text)
    text = re.sub(r"(\\+)\Z", r"\1\1", text)
    return f"'{text}'"


def literal(override: str, several: bool = False) -> str:
    """Return an override whose value Hydra reads as text, if its key stands for a name or a path.

    `null`, and values that are quoted already, stay as they are.

    Args:
        override: As the user typed it, such as `savedir=runs (a)`.
        several: A comma separates the values of a sweep.
    """
    key, equals, value = override.partition("=")
    if not equals or key.lstrip("+") not in LITERAL_KEYS or (several and SWEEP_FUNCTION.fullmatch(value)):
        return override
    values = map(str.strip, VALUE_IN_SWEEP.findall(value)) if several else [value]
    return f"{key}={','.join(map(_literal_value, values))}"


def _literal_value(value: str) -> str:
    if value in ("", "null") or PLAIN.fullmatch(value) or QUOTED.fullmatch(value):
        return value
    return quote(value)


def compose(*overrides: str) -> DictConfig:
    """Return the settings of `conf/` with overrides such as `env=go2_unitree` or `seed=2`.

    Raises:
        HydraException: an override cannot be read, or names a key or a group that does not exist.
    """
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        return hydra.compose("config", [literal(override) for override in overrides])


def prepare(arguments: Sequence[str]) -> list[str]:
    """Return a command line as Hydra takes it: flags before settings, each with its value in one word.

    The values of keys that stand for a name or a path are quoted, and the configuration directory is made
    absolute.

    Raises:
        ConfigError: a word is neither a flag nor `key=value`, or a flag lacks its value.
    """
    several = not set(sweep.FLAGS).isdisjoint(arguments)
    words, flags, settings = list(arguments), [], []
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            if "=" not in word:
                raise ConfigError(f"{word}: write settings as key=value")
            settings.append(literal(word, several))
            continue
        flag, equals, value = word.partition("=")
        flag = SHORT_FLAGS.get(flag, flag)
        if flag not in VALUED_FLAGS:
            if word not in PLAIN_FLAGS and flag != "--info":
                raise ConfigError(f"{word}: unknown flag{_resembling_flag(flag)}")
            flags.append(word)
            continue
        if not equals:
            if not words:
                raise ConfigError(f"{flag}: needs a value")
            value = words.pop(0)
        if flag == "--config-dir":
            value = str(Path(os.path.expanduser(value)).absolute())
        flags.append(f"{flag}={value}")
    return flags + settings


def _resembling_flag(flag: str) -> str:
    """Return advice on an unknown flag."""
    near = difflib.get_close_matches(flag, [*VALUED_FLAGS, *PLAIN_FLAGS], n=1)
    return f"; did you mean {near[0]}?" if near else "; write settings as key=value"


def check(arguments: Sequence[str], several: bool = False) -> None:
    """Check a command line before Hydra sees it, which explains a wrong key or group over many lines.

    Args:
        arguments: The command line, with Hydra's own flags.
        several: It describes several runs, all of which are checked before the first one starts.

    Raises:
        ConfigError: a run cannot be composed.
    """
    overrides = []
    for word in prepare(arguments):
        flag, _, value = word.partition("=")
        if flag == "--config-dir":
            overrides.append(f"hydra.searchpath=[{quote(f'file://{value}')}]")
        elif not word.startswith("-"):
            overrides.append(word)
    try:
        if several:
            _check_sweep(overrides)
        else:
            compose(*overrides)
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        raise ConfigError(_explain(error)) from None
    finally:
        GlobalHydra.instance().clear()


def _check_sweep(overrides: Sequence[str]) -> None:
    """Raise ConfigError for the first run of a sweep that could not start."""
    runs = [compose(*choice) for choice in sweep.choices(overrides)]
    sweep.check_directories(runs)
    for composed in runs:
        sweep.name_run(composed, Path("multirun", "run"))
        from_omegaconf(composed)


def _explain(error: Exception) -> str:
    """Return Hydra's explanation in one line."""
    text = str(error).split("Config search path")[0].split("To append to your config")[0]
    text = " ".join(text.split())
    if unknown := re.search(r"Could not override '([^']*)'", text):
        nearest = _did_you_mean(unknown[1]) or "; the keys are those of conf/config.yaml"
        return f"{unknown[1]}: unknown key{nearest}"
    if text.startswith("Ambiguous value"):
        key, _, values = text.split("'")[1].partition("=")
        return f"{key}={values}: several values are several runs: add -m; a list is written {key}=[{values}]"
    return f"{text}; the keys and groups are those of conf/config.yaml"


def _did_you_mean(key: str) -> str:
    """Return a question that names the keys which resemble an unknown one; empty if none does."""
    known = list(_keys(OmegaConf.to_container(compose())))
    last = key.rpartition(".")[2]
    near = difflib.get_close_matches(key, known, cutoff=0.75)
    near += [one for one in known if difflib.get_close_matches(last, [one.rpartition(".")[2]], cutoff=0.8)]
    return f"; did you mean {' or '.join(list(dict.fromkeys(near))[:3])}?" if near else ""


def _keys(section: Any, prefix: str = "") -> Iterator[str]:
    """Yield the full names of all keys, those of the sections included."""
    for key, value in section.items():
        yield f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _keys(value, f"{prefix}{key}.")
