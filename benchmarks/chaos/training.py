"""Real training peers, `python -m agent.experiment` in its smallest form, and faults of their files."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from agent.storage import checkpoint
from rigs.experiments import Experiments, read_rows
from rigs.processes import Hang, Process, wait_until

COUNTERS = ("time", "step", "updates", "model_version", "transitions", "dropped_gradients")
ROWS = 10  # of a log, until a peer counts as training
DISK = "700k"  # size of the disk that runs full: some checkpoints of the smallest model
WRITES = 0.3  # s at most from training to a fault, while checkpoints are written all the time
NAMES = ("a", "b")
IS_ROOT = os.geteuid() == 0  # only root can mount small disks


class Training:
    """A broker and two peers, whose leader writes a checkpoint after each rollout."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.processes = Experiments(directory)
        self.random = random.Random(seed)
        self.address = self.processes.broker()
        self.savedir = directory / "save"
        self.savedir.mkdir()
        self.checkpoint = self.savedir / "checkpoint.safetensors"
        self._mounted = 0
        if IS_ROOT:
            self.mount(f"size={DISK}")
        self.peers: dict[str, Process] = {}
        self.fill()

    def fill(self) -> None:
        """Start the peers that are missing, and wait until they train together."""
        for name in NAMES:
            if name not in self.peers:
                self.peers[name] = self.processes.peer(
                    name, f"connect={self.address}", f"savedir={self.savedir}", "total_steps=1e9",
                    "checkpoint_interval=1e-3", "group_timeout=2", f"localdir={self.localdir(name)}",
                )  # fmt: skip
        for name in NAMES:
            self.train(name)

    def localdir(self, name: str) -> Path:
        """Return the directory of a peer's files: that of `a` is in the savedir and shares its faults."""
        return self.savedir / "a" if name == "a" else self.savedir.parent / name

    def rows(self, name: str) -> list[dict[str, str]]:
        """Return the rows of a peer's log."""
        return read_rows(self.localdir(name) / "logs.tsv")

    def train(self, name: str, members: int = len(NAMES)) -> None:
        """Wait until a peer has logged some more rows with so many members."""
        since = len(self.rows(name))

        def enough() -> bool:
            if self.peers[name].returncode is not None:
                raise Hang(f"{name} has ended: {self.peers[name].output}")
            return sum(row["peers"] == str(members) for row in self.rows(name)[since:]) >= ROWS

        wait_until(enough, f"{name} trains in a group of {members}")

    def leader(self) -> str:
        """Return the name of the leader."""
        return next(name for name in NAMES if self.rows(name)[-1]["leader"] == "1")

    def written(self) -> int:
        """Return when the checkpoint was last written, in ns of its file system."""
        return self.checkpoint.stat().st_mtime_ns

    def mount(self, options: str) -> None:
        """Mount a disk over the savedir."""
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(self.savedir)], check=True)
        self._mounted += 1

    def unmount(self) -> None:
        """Unmount the last disk, even if files on it are open."""
        subprocess.run(["umount", "--lazy", str(self.savedir)], check=True)
        self._mounted -= 1

    def kill(self, name: str) -> None:
        """Kill a peer at some moment, most likely while it writes a checkpoint."""
        time.sleep(self.random.uniform(0, WRITES))
        self.peers.pop(name).kill()

    def problems(self) -> str:
        """Return what is wrong with the logs or the checkpoint, or an empty text."""
        logs = {name: self.rows(name) for name in NAMES}
        for name, rows in logs.items():
            for counter in COUNTERS:
                values = [float(row[counter] or 0) for row in rows]
                if values != sorted(values):
                    return f"{counter} of {name} goes backwards"
        a, b = ({r["checksum_updates"]: r["checksum"] for r in rows} for rows in logs.values())
        if any(a[updates] != b[updates] for updates in a.keys() & b.keys()):
            return "the replicas differ"
        checkpoint.load(self.checkpoint)
        return ""

    def close(self) -> None:
        """Kill what is left."""
        self.processes.close()
        while self._mounted:
            self.unmount()


def leader_killed(training: Training) -> None:
    """Kill the leader while it writes checkpoints: the other goes on, and the leader comes back."""
    leader = training.leader()
    training.kill(leader)
    training.train(next(iter(training.peers)), members=1)


def all_killed(training: Training) -> None:
    """Kill all peers: the next ones continue from the last checkpoint, and take back rows of their logs."""
    for name in NAMES:
        training.kill(name)


def disk_full(training: Training) -> None:
    """Fill the disk of the savedir: training goes on, and saves again when there is room."""
    ballast = training.savedir / "ballast"
    with contextlib.suppress(OSError), open(ballast, "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    written = training.written()
    training.train("b")  # whose log is elsewhere
    if training.written() != written:
        raise Hang("the disk was not full")
    ballast.unlink()
    wait_until(lambda: training.written() != written, "a checkpoint is written again")


def disk_read_only(training: Training) -> None:
    """Make the savedir read-only, as after an error of its disk, and writable again."""
    training.mount("ro")
    training.train("b")
    training.unmount()


FAULTS: dict[str, Callable[[Training], None]] = {
    "training: leader killed in a checkpoint": leader_killed,
    "training: all peers killed": all_killed,
}
if IS_ROOT:
    FAULTS |= {"training: disk full": disk_full, "training: disk read-only": disk_read_only}
