"""Helpers for tests that start brokers and peers as a user does, as processes of their own."""

import csv
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

TINY = [
    "env=go2", "actor_batch_size=4", "unroll_length=6", "model.hidden_sizes=[16,16]", "physics_threads=1",
    "learner_threads=1", "log_interval=1e-6", "batch_size=8", "virtual_batch_size=8",
]  # fmt: skip
"""Settings with which a peer takes some hundred steps/s even on a busy core."""


class Processes:
    """Processes that end with the test, whatever happens."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.started: list[subprocess.Popen] = []

    def start(self, module: str, *arguments: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self.started.append(process)
        return process

    def broker(self) -> str:
        """Starts a broker on a free port of 127.0.0.1 and returns its address."""
        process = self.start("moolib.broker", "127.0.0.1:0")
        line = process.stdout.readline()
        match = re.search(r"listening at (\S+)", line)
        assert match, line
        return match[1]

    def peer(self, name: str, *overrides: str) -> subprocess.Popen:
        return self.start("agent.experiment", *TINY, f"local_name={name}", *overrides)

    def rows(self, name: str, group: str = "default") -> list[dict[str, str]]:
        """The complete rows that a peer has logged so far."""
        return self.table(self.directory / "outputs" / "herd" / group / "peers" / name / "logs.tsv")

    def table(self, path: Path) -> list[dict[str, str]]:
        """The complete rows of a log; none if there is no such file."""
        if not path.exists():
            return []
        text = path.read_text()
        return list(csv.DictReader(text[: text.rfind("\n") + 1].splitlines(), delimiter="\t"))


@contextmanager
def processes(directory: Path) -> Iterator[Processes]:
    group = Processes(directory)
    try:
        yield group
    finally:
        for process in group.started:
            process.kill()
            if process.returncode is None:
                process.communicate()


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"still not so after {seconds:g} s: {what}"
        time.sleep(0.1)
