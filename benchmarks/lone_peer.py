"""A peer that trains alone within the process of a benchmark, and its settings on the command line."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from rich.console import Console

from agent.cli.overrides import compose
from agent.config import from_omegaconf
from agent.experiment import start_rpc
from agent.logs.console import TrainingConsole
from agent.training.peer import Peer


@contextmanager
def lone_peer(*overrides: str) -> Iterator[Peer]:
    """Yield a peer that has started to train with these overrides, in a scratch directory."""
    console = TrainingConsole("benchmark", 1.0, Console(quiet=True))
    with tempfile.TemporaryDirectory() as directory, console as status:
        config = from_omegaconf(compose(*overrides, f"savedir={directory}"))
        rpc, broker = start_rpc(config, status)
        peer = Peer(config, rpc, status)
        try:
            peer.join()
            yield peer
        finally:
            peer.close()
            del broker


def split(kind: type[Any], arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arguments that are options of a benchmark, and those that override settings of training.

    Args:
        kind: Dataclass of the benchmark's options.
        arguments: The command line without the program.
    """
    names = {field.name for field in fields(kind)}
    own = [word for word in arguments if "=" not in word or word.partition("=")[0].lstrip("-") in names]
    return own, [word for word in arguments if word not in own]
