"""Brokers, peers and other programs as child processes whose output is read while they run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[1]
PATIENCE = 60.0  # seconds until something that does not happen counts as a hang
POLL = 0.01  # seconds
PORT_PATIENCE = 10.0  # seconds in which the port of a broker that has just died may still be taken


class Hang(AssertionError):
    """Something that should have happened did not happen in time."""


def wait_until(condition: Callable[[], object], what: str = "", timeout: float = PATIENCE) -> None:
    """Wait until `condition()` is true, at most `timeout` seconds.

    Raises:
        Hang: It did not become true in time; the message says `what` was waited for.
    """
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise Hang(f"not within {timeout:g} s: {what}" if what else f"timed out after {timeout:g} s")
        time.sleep(POLL)


def environment(**variables: str) -> dict[str, str]:
    """Return the environment for a child that uses this checkout: ours, with `variables` added."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **variables}


class Process:
    """A running `python ARGUMENTS`, whose output is collected line by line.

    Args:
        arguments: For the Python interpreter, such as `"-m", "moolib.broker"`.
        prefix: A command that runs the interpreter, such as `["ip", "netns", "exec", "host"]`.
        popen: Options of `subprocess.Popen`. With `stderr=subprocess.STDOUT` the lines hold both streams.
    """

    def __init__(self, *arguments: str, prefix: Sequence[str] = (), **popen: Any) -> None:
        self.arguments = arguments
        self.lines: list[str] = []  # of the standard output
        self.errors = ""  # the standard error
        options = {"cwd": ROOT, "env": environment(), "stderr": subprocess.PIPE, **popen}
        command = [*prefix, sys.executable, *arguments]
        pipe = subprocess.PIPE
        self._child = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, **options)
        streams = [(self._child.stdout, self._add_line), (self._child.stderr, self._add_error)]
        self._readers = [
            threading.Thread(target=_read, args=(stream, add), daemon=True)
            for stream, add in streams
            if stream
        ]
        for reader in self._readers:
            reader.start()

    def _add_line(self, line: str) -> None:
        self.lines.append(line.rstrip())

    def _add_error(self, line: str) -> None:
        self.errors += line

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._child.pid

    @property
    def returncode(self) -> int | None:
        """The exit status, negative for a signal; None while the process runs."""
        return self._child.poll()

    @property
    def output(self) -> str:
        """The standard output so far."""
        return "".join(f"{line}\n" for line in self.lines)

    def signal(self, number: int) -> None:
        """Send a signal."""
        self._child.send_signal(number)

    def kill(self) -> None:
        """Kill the process, unless it has ended, and wait until it is gone."""
        self._child.kill()
        self.wait()

    def wait(self, timeout: float = PATIENCE) -> int:
        """Wait until the process has ended and its output is complete; return the exit status.

        Raises:
            Hang: It goes on.
        """
        try:
            status = self._child.wait(timeout)
        except subprocess.TimeoutExpired:
            raise Hang(f"{self.arguments} still runs after {timeout:g} s") from None
        for reader in self._readers:
            reader.join(timeout)
        return status

    def finish(self, timeout: float = PATIENCE) -> str:
        """Wait until the process has ended; return its standard output.

        Raises:
            Hang: It goes on.
        """
        self.wait(timeout)
        return self.output

    def end(self, timeout: float = PATIENCE) -> int:
        """End the process in the way that it expects, here by closing its input; return the exit status."""
        assert self._child.stdin is not None
        self._child.stdin.close()
        return self.wait(timeout)


def _read(stream: IO[str], add: Callable[[str], None]) -> None:
    """Pass on each line until the stream ends."""
    for line in stream:
        add(line)


class Broker(Process):
    """A running `python -m moolib.broker` that has begun to listen at `address`.

    Raises:
        Hang: It ended at once, and its port did not become free in time.
    """

    def __init__(self, address: str = "127.0.0.1:0", *options: str, **more: Any) -> None:
        deadline = time.monotonic() + PORT_PATIENCE
        while True:
            super().__init__("-m", "moolib.broker", address, *options, **more)
            wait_until(lambda: self.lines or self.returncode is not None, f"a broker listens at {address}")
            if self.lines:
                break
            self.wait()
            if "in use" not in self.errors or time.monotonic() > deadline:
                raise Hang(f"no broker could be started at {address}: {self.errors}")
        self.address = self.lines[0].removeprefix("Broker listening at ")

    def end(self, timeout: float = PATIENCE) -> int:
        """End the broker with SIGTERM; return the exit status."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout)
