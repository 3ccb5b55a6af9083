"""Brokers and training peers as processes of their own, for tests."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class Process:
    """A child whose standard output is read line by line."""

    def __init__(self, *command: str) -> None:
        self.lines: list[str] = []
        self.child = subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
            cwd=ROOT,
        )
        self.errors = ""
        self._readers = [threading.Thread(target=f, daemon=True) for f in (self._read, self._read_errors)]
        for reader in self._readers:
            reader.start()

    def _read(self) -> None:
        for line in self.child.stdout:
            self.lines.append(line.rstrip())

    def _read_errors(self) -> None:
        for line in self.child.stderr:
            self.errors += line

    def signal(self, number: int) -> None:
        self.child.send_signal(number)

    def kill(self) -> float:
        """SIGKILL; the time."""
        now = time.monotonic()
        self.child.kill()
        self.child.wait(10)
        return now

    def end(self, timeout: float = 10) -> int:
        """Close the standard input and wait; the exit status."""
        self.child.stdin.close()
        return self._wait(timeout)

    def _wait(self, timeout: float) -> int:
        status = self.child.wait(timeout)
        for reader in self._readers:
            reader.join(timeout)
        return status


class Broker(Process):
    """`python -m moolib.broker` that has begun to listen."""

    def __init__(self, port: int = 0, *options: str, host: str = "127.0.0.1") -> None:
        super().__init__("-m", "moolib.broker", f"{host}:{port}", *options)
        until(lambda: self.lines or self.child.poll() is not None, 10)
        assert self.lines, self.errors
        self.address = self.lines[0].removeprefix("Broker listening at ")

    def end(self, timeout: float = 10) -> int:
        self.signal(signal.SIGTERM)
        return self._wait(timeout)


class Peer(Process):
    """`peer.py`; see there."""

    def __init__(
        self, address: str, name: str, seed: int, timeout: float = 5.0, pause: float = 0.003
    ) -> None:
        self.name = name
        script = str(Path(__file__).parent / "peer.py")
        super().__init__(script, address, name, str(seed), str(timeout), str(pause))

    def steps(self, since: float = 0.0) -> list[dict]:
        """The steps it has made since then."""
        return [step for step in map(json.loads, list(self.lines)) if step["time"] >= since]


def until(condition, timeout: float = 30.0) -> None:
    """Wait for it; AssertionError if it does not come true."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.01)


def train_together(peers: list[Peer], steps: int = 20, timeout: float = 60.0) -> float:
    """Wait until these, and nobody else, have made `steps` steps together; the time of the first one."""
    start = time.monotonic()

    def first_together(peer: Peer) -> list[dict]:
        return [s for s in peer.steps(start) if s["members"] == len(peers) == s["contributions"]]

    until(lambda: all(len(first_together(peer)) >= steps for peer in peers), timeout)
    assert_equal_models(peers, start)
    return max(first_together(peer)[0]["time"] for peer in peers)


def assert_equal_models(peers: list[Peer], since: float) -> None:
    """All peers had the same model at each version that they made together since then."""
    models: dict[int, set[int]] = {}
    for peer in peers:
        for step in peer.steps(since):
            if step["contributions"] == len(peers):
                models.setdefault(step["version"], set()).add(step["checksum"])
    assert len(models) > 5
    assert all(len(checksums) == 1 for checksums in models.values()), models
