"""Cut, slow down and disturb the links between hosts: the majority goes on, and no model diverges.

    python -m benchmarks.hosts
    python -m benchmarks.hosts longest=10

A broker and four peers run in network namespaces of their own (`rigs.network_namespaces`; needs root). The
peers and the checks are those of `benchmarks.chaos`. The link that is cut is that of one peer's host; the
others, who still reach the broker, are the majority. The benchmark prints a table and exits with 1 if
anything was wrong.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agent.cli.arguments import command, option
from agent.errors import ConfigError
from benchmarks.chaos.rig import Peer, Rig
from envs.schema import Positive
from rigs.network_namespaces import Condition, Network, missing
from rigs.processes import Broker, Hang

PEERS = 4  # on hosts 1 to 4; the broker is on host 0
PORT = 4431
CUTS = (1.0, 5.0)  # seconds; one more is an option
SLOW = 10.0  # seconds under delay and loss
ROUND_TRIP, LOSS = 0.02, 0.01  # seconds; share of frames
CUT = Condition(sends=False, receives=False)
PAUSE = 0.05  # seconds of a gradient, so that the switch keeps up


@dataclass(frozen=True)
class Options:
    timeout: Positive = option(2.0, "of the group, s")
    longest: Positive = option(60.0, "duration of the longest cut, s")
    seed: int = option(1, "of the gradients and the choice of peers")


@dataclass
class Table:
    """The results, printed as they come."""

    lines: list[str] = field(default_factory=list)
    good: bool = True

    def add(self, what: str, pause: float, back: float, rig: Rig) -> None:
        """Check the ledger; print a row."""
        findings = rig.check()
        verdict = "; ".join(findings.problems[:2]) or ("updates lost" if findings.lost else "ok")
        self.good &= verdict == "ok"
        self.lines.append(f"| {what} | {pause:.2f} s | {back:.2f} s | {findings.lost} | {verdict} |")
        print(self.lines[-1], flush=True)


@contextmanager
def training(
    network: Network, options: Options, version: int, advertised: int | None = None
) -> Iterator[Rig]:
    """Yield a broker and peers that train together, with gradients on the network `advertised` if given."""
    address = network.address(0, version=version)
    broker = Broker(f"[{address}]:{PORT}" if version == 6 else f"{address}:{PORT}", prefix=network.inside(0))
    with tempfile.TemporaryDirectory(prefix="hosts-") as directory:
        rig = Rig(broker, Path(directory), options.timeout, options.seed, PAUSE)
        try:
            for host in range(1, PEERS + 1):
                advertise = None if advertised is None else network.address(host, advertised)
                rig.start(netns=network.names[host], advertise=advertise)
            rig.train_together()
            yield rig
        finally:
            rig.close()


def cut(rig: Rig, network: Network, condition: Condition, seconds: float) -> tuple[float, float]:
    """Disturb the last peer's link for a while; return the others' pause and the time until it is back, s."""
    victim, others = rig.peers[-1], rig.peers[:-1]
    dropped = seconds > rig.timeout
    with rig.watch(victim) as watch:
        began = time.monotonic()
        with network.condition(PEERS, condition):
            if dropped:
                rig.train_together(others)
            time.sleep(max(0.0, began + seconds - time.monotonic()))
        restored = time.monotonic()
        rig.train_together(rig.peers)
    return watch.pause, _first_together(rig.peers, restored) - restored


def _first_together(peers: list[Peer], since: float) -> float:
    """Return when the last of the peers made its first update in the group of all of them."""
    together = ((u["time"] for u in one.updates(since) if u["members"] == len(peers)) for one in peers)
    return float(max(map(min, together)))


def run_all(network: Network, options: Options, table: Table) -> None:
    """Measure all rows.

    Raises:
        Hang: The peers do not train together again.
    """
    with training(network, options, version=4) as rig:
        for seconds in (*CUTS, options.longest):
            table.add(f"link cut for {seconds:g} s", *cut(rig, network, CUT, seconds), rig)
        enough = 2.5 * options.timeout
        table.add("it cannot send", *cut(rig, network, Condition(sends=False), enough), rig)
        table.add("it cannot receive", *cut(rig, network, Condition(receives=False), 3 * enough), rig)
        with rig.watch() as watch:
            with network.condition(0, CUT):
                time.sleep(options.timeout)
                rig.train_together()
            time.sleep(enough)
            rig.train_together()
        table.add("the broker's link cut", watch.pause, 0.0, rig)
        with rig.watch() as watch, network.condition(PEERS, Condition(delay=ROUND_TRIP, loss=LOSS)):
            time.sleep(SLOW)
            rig.train_together()
        table.add(f"{ROUND_TRIP * 1e3:g} ms and {LOSS:.0%} loss", watch.pause, 0.0, rig)
    with training(network, options, version=6) as rig:
        table.add("IPv6: link cut", *cut(rig, network, CUT, enough), rig)
    with training(network, options, version=4, advertised=1) as rig:
        table.add("gradients through a second network", *cut(rig, network, CUT, enough), rig)


def run(options: Options) -> int:
    """Measure and print; return the exit status.

    Raises:
        ConfigError: This machine allows no network namespaces.
    """
    if reason := missing():
        raise ConfigError(reason)
    table, network = Table(), Network(PEERS + 1, networks=2)
    print("| link of a peer | longest pause of the others | it is back after | updates lost | verdict |")
    print("|---|---|---|---|---|")
    try:
        run_all(network, options, table)
    except Hang as hang:
        print(f"benchmarks.hosts: {hang}", file=sys.stderr)
        table.good = False
    finally:
        network.close()
    return 0 if table.good else 1


if __name__ == "__main__":
    sys.exit(command("benchmarks.hosts", Options, run, __doc__, sys.argv[1:]))
