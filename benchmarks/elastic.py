"""How long the peers of a group pause when one of them is killed, leaves, is stopped or joins.

    python -m benchmarks.elastic [--turns 5] [--timeout 2]

A broker and training peers (those of the tests), as processes on this machine. A pause is the longest time
between two steps of any survivor, less the usual time. Medians and the longest of all turns are printed.
"""

from __future__ import annotations

import argparse
import itertools
import signal
import statistics
import time

from rigs.momentum_peer import MomentumPeer, train_together
from rigs.processes import Broker

STEPS = 60  # steps together before and after each event


def pause(survivors: list[MomentumPeer], since: float) -> float:
    """Seconds between the two steps of a survivor that are farthest apart, less the median."""
    longest = 0.0
    for peer in survivors:
        times = [step["time"] for step in peer.steps(since)]
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        longest = max(longest, max(gaps) - statistics.median(gaps))
    return longest


class Peers:
    """One broker, three peers, and what may happen to them; each method returns pauses in seconds."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.broker = Broker()
        self.count = 0
        self.peers = [self.new() for _ in range(3)]

    def new(self) -> MomentumPeer:
        """Start a peer."""
        self.count += 1
        return MomentumPeer(self.broker.address, f"peer{self.count}", self.count, self.timeout)

    def settle(self) -> float:
        """Train for a while; then the time."""
        train_together(self.peers, STEPS)
        return time.monotonic() - 0.1

    def lose(self, how: str) -> float:
        """A peer goes: the others' pause."""
        since = self.settle()
        peer = self.peers.pop(0)
        if how == "kill":
            peer.kill()
        elif how == "exit":
            peer.end()
        else:
            peer.signal(signal.SIGSTOP)
        train_together(self.peers, STEPS)
        longest = pause(self.peers, since)
        peer.kill()
        return longest

    def join(self) -> tuple[float, float]:
        """A peer comes: the others' pause, and the time from its start (imports done) to its first step."""
        since = self.settle()
        others = list(self.peers)
        self.peers.append(self.new())
        train_together(self.peers, STEPS)
        first = self.peers[-1].steps()[0]
        return pause(others, since), first["time"] - first["start"]

    def lose_broker(self) -> float:
        """The broker is killed and comes back."""
        since = self.settle()
        self.broker.kill()
        train_together(self.peers, STEPS)
        self.broker = Broker(self.broker.address)
        time.sleep(3)
        return pause(self.peers, since)

    def end(self) -> None:
        """Kill what is left."""
        for process in [*self.peers, self.broker]:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--timeout", type=float, default=2.0, help="of the group, in seconds")
    options = parser.parse_args()
    found: dict[str, list[float]] = {}
    peers = Peers(options.timeout)
    try:
        for _ in range(options.turns):
            for how in ("kill", "exit", "stop"):
                found.setdefault(f"others pause after {how}", []).append(peers.lose(how))
                others, joiner = peers.join()
                found.setdefault("others pause when a peer joins", []).append(others)
                found.setdefault("a new peer's first step after its start", []).append(joiner)
        found["all pause when the broker dies and returns"] = [peers.lose_broker()]
    finally:
        peers.end()
    for what, seconds in found.items():
        print(f"{what}: median {statistics.median(seconds):.3f} s, longest {max(seconds):.3f} s")


if __name__ == "__main__":
    main()
