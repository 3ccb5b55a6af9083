"""Brokers and real training peers, started as a user does in a directory of their own."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rigs.processes import Broker, Process

TINY = [
    "env=go2", "actor_batch_size=4", "unroll_length=6", "model.hidden_sizes=[16,16]", "physics_threads=1",
    "learner_threads=1", "log_interval=1e-6", "batch_size=8", "virtual_batch_size=8",
]  # fmt: skip
"""Overrides with which a peer takes some hundred steps/s even on a busy core."""


class Experiments:
    """Processes whose working directory is `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.started: list[Process] = []

    def broker(self) -> str:
        """Start a broker on a free port of 127.0.0.1; return its address."""
        broker = Broker(cwd=self.directory, stderr=subprocess.STDOUT)
        self.started.append(broker)
        return broker.address

    def peer(self, name: str, *overrides: str) -> Process:
        """Start a tiny training peer."""
        return self.run("-m", "agent.experiment", *TINY, f"local_name={name}", *overrides)

    def run(self, *arguments: str, **popen: Any) -> Process:
        """Start `python ARGUMENTS`; its output holds the standard error, too."""
        process = Process(*arguments, cwd=self.directory, stderr=subprocess.STDOUT, **popen)
        self.started.append(process)
        return process

    def rows(self, name: str, group: str = "default") -> list[dict[str, str]]:
        """Return the complete rows that a peer has logged so far."""
        return read_rows(self.directory / "outputs" / "herd" / group / "peers" / name / "logs.tsv")

    def close(self) -> None:
        """Kill what is left."""
        for process in self.started:
            process.kill()


@contextmanager
def experiments(directory: Path) -> Iterator[Experiments]:
    """Yield `Experiments` whose processes end with the block, whatever happens."""
    group = Experiments(directory)
    try:
        yield group
    finally:
        group.close()


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the complete rows of a log; none if there is no such file."""
    if not path.exists():
        return []
    text = path.read_text()
    return list(csv.DictReader(text[: text.rfind("\n") + 1].splitlines(), delimiter="\t"))
