"""Harm a group of training peers again and again, and check that no update is lost, doubled or wrong.

    python -m benchmarks.chaos
    python -m benchmarks.chaos faults=200 training=2

A broker and up to six peers (`benchmarks.chaos.checked_peer`) run as real processes on this machine. The
schedule of faults follows from the seed. After each fault all peers must train together again, their models
must be equal bit for bit, and the ledger of their updates must be in order. With 200 faults or more, the
broker also becomes unreachable for a minute once. The benchmark prints a table and exits with 1 if anything
was wrong.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from agent.cli.arguments import command, option
from benchmarks.chaos import training
from benchmarks.chaos.faults import FAULTS, ONCE, Fault
from benchmarks.chaos.rig import Rig
from envs.schema import Bounds, Count, Positive
from rigs.processes import Broker, Hang

LONG = 200  # faults; from so many on, `ONCE` is part of the schedule
FEWEST = 4  # peers: some faults take one, and three leaders in a row take three


@dataclass(frozen=True)
class Options:
    faults: Count = option(40, "of the schedule")
    peers: Annotated[int, Bounds(low=FEWEST, high=32)] = option(6, "that train together")
    timeout: Positive = option(2.0, "of the group, s")
    seed: int = option(1, "of the schedule and the gradients")
    training: Annotated[int, Bounds(low=0)] = option(1, "faults of each kind for real training peers")


@dataclass
class Row:
    """The results of all faults of one kind."""

    times: int = 0
    pause: float = 0.0  # s, the longest
    lost: int = 0  # updates
    problems: str = ""  # the first one


class Chaos:
    """The schedule of faults, and the table of their results so far in `rows`."""

    def __init__(self, options: Options, directory: Path) -> None:
        self.options = options
        self.rig = Rig(Broker(), directory, options.timeout, options.seed)
        self.rows: dict[str, Row] = {}

    def schedule(self) -> list[tuple[str, Fault]]:
        """Return as many faults as asked for, each kind at least once if they suffice."""
        kinds = list(FAULTS)
        weights = [often for _, often in FAULTS.values()]
        extra = self.options.faults - len(kinds)
        names = kinds + self.rig.random.choices(kinds, weights, k=max(extra, 0))
        self.rig.random.shuffle(names)
        chosen = [(name, FAULTS[name][0]) for name in names[: self.options.faults]]
        return chosen + list(ONCE.items()) * (self.options.faults >= LONG)

    def run(self) -> None:
        """Inject all faults, one after the other.

        Raises:
            Hang: The peers do not train together again; the table says after which fault.
        """
        began = time.monotonic()
        self.fill("peers join")
        for name, fault in self.schedule():
            row = self.rows.setdefault(name, Row())
            row.times += 1
            try:
                watch = fault(self.rig)
                row.pause = max(row.pause, watch.pause)
                self.rig.train_together()
            except Hang as hang:
                row.problems = row.problems or str(hang)
                raise
            self.check(row)
            print(
                f"{time.monotonic() - began:6.1f} s  {name}: {watch.pause:.2f} s", file=sys.stderr, flush=True
            )
            self.fill("peers join")

    def run_training(self, directory: Path) -> None:
        """Inject the faults of real training peers.

        Raises:
            Hang: The peers do not train together again.
        """
        peers = training.Training(directory, self.options.seed)
        try:
            for name, fault in list(training.FAULTS.items()) * self.options.training:
                row = self.rows.setdefault(name, Row())
                row.times += 1
                try:
                    fault(peers)
                    peers.fill()
                    row.problems = row.problems or peers.problems()
                except Hang as hang:
                    row.problems = row.problems or str(hang)
                    raise
                print(f"  {name}", file=sys.stderr, flush=True)
        finally:
            peers.close()

    def fill(self, name: str) -> None:
        """Start peers until the group is complete."""
        row = self.rows.setdefault(name, Row())
        while len(self.rig.peers) < self.options.peers:
            if not self.rig.peers:
                self.rig.start()
            else:
                with self.rig.watch() as watch:
                    self.rig.start()
                    self.rig.train_together()
                row.times, row.pause = row.times + 1, max(row.pause, watch.pause)
            self.rig.train_together()
        self.check(row)

    def check(self, row: Row) -> None:
        """Check the ledger."""
        findings = self.rig.check()
        row.lost += findings.lost
        row.problems = row.problems or "; ".join(findings.problems[:2])

    def table(self) -> str:
        """Return the results as a table in Markdown."""
        lines = [
            "| fault | times | longest pause of the others | updates lost | verdict |",
            "|---|---|---|---|---|",
        ]
        for name, row in self.rows.items():
            verdict = row.problems or ("updates lost" if row.lost else "ok")
            pause = f"{row.pause:.2f} s" if row.pause else "–"  # not measured where real peers train
            lines.append(f"| {name} | {row.times} | {pause} | {row.lost} | {verdict} |")
        return "\n".join(lines)

    @property
    def good(self) -> bool:
        """Whether everything was in order."""
        return not any(row.problems or row.lost for row in self.rows.values())


def run(options: Options) -> int:
    """Run the schedule and print the table; return the exit status."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="chaos-") as directory:
        chaos = Chaos(options, Path(directory))
        try:
            chaos.run()
            if options.training:
                chaos.run_training(Path(directory))
        except Hang:
            print(chaos.rig.dump(), file=sys.stderr)
        finally:
            print(chaos.table())
            chaos.rig.close()
        faults = sum(row.times for name, row in chaos.rows.items() if name != "peers join")
        print(f"{faults} faults, {chaos.rig.ledger.tip} updates in {time.monotonic() - began:.0f} s")
        return 0 if chaos.good else 1


if __name__ == "__main__":
    sys.exit(command("benchmarks.chaos", Options, run, __doc__, sys.argv[1:]))
