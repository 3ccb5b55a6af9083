"""Command lines that the commands print for the user to type next: the one place that composes them."""

from __future__ import annotations

import os
import shlex
from pathlib import Path


def module(name: str, **settings: object) -> str:
    """Return the command line that runs a module with settings."""
    return shlex.join(["python", "-m", name, *(f"{key}={value}" for key, value in settings.items())])


def plot(*arguments: object) -> str:
    """Return the command line that plots: plot.py of the checkout, or the module of an install."""
    return shlex.join(["python", "-m", "plot", *map(str, arguments)])


def join(address: str, project: str, group: str) -> str:
    """Return what to type to add a peer to a run."""
    return module("agent.experiment", connect=address, project=project, group=group)


def after_training(checkpoint: str | Path, log: str | Path) -> list[str]:
    """Return what to type, in any directory, once a run has left a checkpoint and a log."""
    checkpoint, log = os.path.abspath(checkpoint), os.path.abspath(log)
    return [
        plot(log),
        module("agent.evaluate", checkpoint=checkpoint),
        module("agent.play", checkpoint=checkpoint),
        module("agent.export", checkpoint=checkpoint, out="policy.onnx"),
    ]


def resume(savedir: str, group: str, local_name: str) -> str:
    """Return the settings with which a stopped run goes on."""
    return shlex.join([f"savedir={os.path.abspath(savedir)}", f"group={group}", f"local_name={local_name}"])
