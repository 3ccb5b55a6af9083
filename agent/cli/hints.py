"""Command lines that the commands print for the user to type next: the one place that composes them."""

from __future__ import annotations


def module(name: str, **settings: object) -> str:
    """Return the command line that runs a module with settings."""
    return " ".join(["python", "-m", name, *(f"{key}={value}" for key, value in settings.items())])


def plot(*arguments: object) -> str:
    """Return the command line that plots."""
    return " ".join(["python", "plot.py", *map(str, arguments)])


def join(address: str, project: str, group: str) -> str:
    """Return what to type to add a peer to a run."""
    return module("agent.experiment", connect=address, project=project, group=group)


def after_training(checkpoint: object, log: object) -> list[str]:
    """Return what to type once a run has left a checkpoint and a log."""
    return [
        plot(log),
        module("agent.evaluate", checkpoint=checkpoint),
        module("agent.play", checkpoint=checkpoint),
        module("agent.export", checkpoint=checkpoint, out="policy.onnx"),
    ]


def resume(savedir: str, local_name: str) -> str:
    """Return the settings with which a stopped run goes on."""
    return f"savedir={savedir} local_name={local_name}"
