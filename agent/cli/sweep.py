"""Several runs in one command, one after the other: `python -m agent.experiment -m seed=1,2,3`.

Each run has a directory of its own below `multirun/`; a table at the end compares them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig
from rich.table import Table

from agent.errors import ConfigError

FLAGS = ("-m", "--multirun")


@dataclass(frozen=True)
class Outcome:
    """The end of a run.

    Attributes:
        directory: Of its files.
        end: "finished", "stopped" or "failed".
        step: Policy steps.
        seconds: Training time.
        lin_vel_error: Of the last row of the log, m/s.
        yaw_rate_error: Of the last row of the log, rad/s.
    """

    directory: str
    end: str
    step: int = 0
    seconds: float = 0.0
    lin_vel_error: float = math.nan
    yaw_rate_error: float = math.nan


def choices(overrides: Sequence[str]) -> list[list[str]]:
    """Return choices of single values that, taken together, try every value of the overrides once.

    The first has the first value of each; every other one differs in one value.

    Raises:
        HydraException: an override cannot be read.
    """
    values = []
    for override in OverridesParser.create().parse_overrides(list(overrides)):
        assert override.input_line is not None
        swept, key = override.is_sweep_override(), override.input_line.partition("=")[0]
        values.append(
            [f"{key}={value}" for value in override.sweep_string_iterator()]
            if swept
            else [override.input_line]
        )
    first = [options[0] for options in values]
    others = [
        [*first[:i], value, *first[i + 1 :]] for i, options in enumerate(values) for value in options[1:]
    ]
    return [first, *others]


def name_run(composed: DictConfig, directory: Path) -> None:
    """Keep a run in its directory of the sweep, and name its group after it.

    Raises:
        ConfigError: the runs would join one group.
    """
    if composed.connect is not None:
        if composed.group is None:
            raise ConfigError(
                "group=null: with connect and -m each run needs its own, such as group='s${seed}'"
            )
        return
    if composed.savedir is None:
        composed.savedir = str(directory)
    if composed.group is None:
        composed.group = f"{directory.parent.name}-{directory.name}"


def check_directories(runs: Sequence[DictConfig]) -> None:
    """Raise ConfigError if several runs were given one directory: each would continue the one before."""
    for key in ("savedir", "localdir"):
        given = {run[key] for run in runs if run[key] is not None}
        if len(runs) > 1 and len(given) == 1:
            raise ConfigError(
                f"{key}={given.pop()}: with -m each run needs its own; leave it out or add '/${{seed}}'"
            )


def table(overrides: Sequence[Sequence[str]], outcomes: Sequence[Outcome]) -> Table:
    """Return the runs as a table, with the settings in which they differ.

    The errors are those of training, with exploring actions; `agent.evaluate` measures without noise.
    """
    common = set.intersection(*(set(settings) for settings in overrides))
    shown = Table("\nrun", box=None, pad_edge=False, header_style="bold")
    for title in ("error\nm/s", "error\nrad/s", "\nsteps", "\ns"):
        shown.add_column(title, justify="right", no_wrap=True)
    shown.add_column("\nend")
    shown.add_column("\ndirectory", overflow="fold")
    for settings, outcome in zip(overrides, outcomes, strict=True):
        name = " ".join(setting.replace("\\", "") for setting in settings if setting not in common)
        errors = (
            f"{x:.3f}" if math.isfinite(x) else "-" for x in (outcome.lin_vel_error, outcome.yaw_rate_error)
        )
        amounts = f"{outcome.step:,}", f"{outcome.seconds:.0f}"
        shown.add_row(name or "all", *errors, *amounts, outcome.end, os.path.relpath(outcome.directory))
    return shown


def common_directory(outcomes: Sequence[Outcome]) -> str:
    """Return the directory that holds all runs, relative to the working directory."""
    return os.path.relpath(os.path.commonpath([os.path.dirname(outcome.directory) for outcome in outcomes]))


def compared_by(overrides: Sequence[Sequence[str]]) -> str:
    """Return the setting by which to compare the runs: the first that differs, or `all` if only seeds do."""
    common = set.intersection(*(set(settings) for settings in overrides))
    differing = [setting.partition("=")[0] for setting in overrides[0] if setting not in common]
    for key in differing:
        if key not in ("seed", "machine", "savedir", "localdir", "local_name"):
            return f"{key}.name" if key in ("env", "algorithm", "model", "scenario") else key
    return "all"
