"""The settings of `agent.experiment`: Hydra composes `conf/` and the overrides of the command line."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from agent.cli import sweep
from agent.config import from_omegaconf
from agent.errors import ConfigError
from agent.storage.paths import CONF


def compose(*overrides: str) -> DictConfig:
    """Return the settings of `conf/` with overrides such as `env=go2_unitree` or `seed=2`.

    Raises:
        HydraException: an override cannot be read, or names a key or a group that does not exist.
    """
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        return hydra.compose("config", list(overrides))


def check(arguments: Sequence[str], several: bool = False) -> None:
    """Check a command line before Hydra sees it, which explains a wrong key or group over many lines.

    Args:
        arguments: The command line, with Hydra's own flags.
        several: It describes several runs, all of which are checked before the first one starts.

    Raises:
        ConfigError: a run cannot be composed.
    """
    for before, argument in itertools.pairwise(["", *arguments]):
        valued = before.startswith("-") and before not in sweep.FLAGS
        if "=" not in argument and not argument.startswith("-") and not valued:
            raise ConfigError(f"{argument}: write settings as key=value")
    overrides = [argument for argument in arguments if "=" in argument]
    for flag, value in itertools.pairwise(arguments):
        if flag in ("--config-dir", "-cd"):
            overrides.append(f"hydra.searchpath=['file://{Path(value).absolute()}']")
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
    if text.startswith("Ambiguous value"):
        key, _, values = text.split("'")[1].partition("=")
        return f"{key}={values}: several values are several runs: add -m; a list is written {key}=[{values}]"
    return f"{text}; the keys and groups are those of conf/config.yaml"
