"""How long the peers of a group pause when one of them is killed, leaves, is stopped or joins.

    python -m benchmarks.elastic turns=2

A broker and training peers (`rigs.momentum_peer`) run as processes on this machine. A pause is the longest
time between two steps of any survivor, less the usual time. The benchmark prints the median and the longest
of all turns.
"""

from __future__ import annotations

import itertools
import signal
import statistics
import sys
import time
from dataclasses import dataclass

from agent.cli.arguments import command, option
from envs.schema import Count, Positive
from rigs.momentum_peer import MomentumPeer, train_together
from rigs.processes import Broker

STEPS = 60  # steps together before and after each event
RETURN = 3.0  # s, after which all peers have noticed that the broker is back


@dataclass(frozen=True)
class Options:
    turns: Count = option(5, "how often each of these happens")
    timeout: Positive = option(2.0, "of the group, s")


def pause(survivors: list[MomentumPeer], since: float) -> float:
    """Return the seconds between the two steps of a survivor that are farthest apart, less the median."""
    longest = 0.0
    for peer in survivors:
        times = [step["time"] for step in peer.steps(since)]
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        longest = max(longest, max(gaps) - statistics.median(gaps))
    return longest


class Group:
    """One broker and three peers; each method lets something happen to them and returns pauses in seconds."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.broker = Broker()
        self.count = 0
        self.peers = [self.start() for _ in range(3)]

    def start(self) -> MomentumPeer:
        """Start a peer."""
        self.count += 1
        return MomentumPeer(self.broker.address, f"peer{self.count}", self.count, self.timeout)

    def settle(self) -> float:
        """Let the peers train for a while; return the time after that."""
        train_together(self.peers, STEPS)
        return time.monotonic() - 0.1

    def lose(self, how: str) -> float:
        """Let a peer go; return the pause of the others."""
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
        """Let a peer come; return the pause of the others, and its time from imports to first step."""
        since = self.settle()
        others = list(self.peers)
        self.peers.append(self.start())
        train_together(self.peers, STEPS)
        first = self.peers[-1].steps()[0]
        return pause(others, since), first["time"] - first["start"]

    def lose_broker(self) -> float:
        """Kill the broker and start it again; return the pause of all peers."""
        since = self.settle()
        self.broker.kill()
        train_together(self.peers, STEPS)
        self.broker = Broker(self.broker.address)
        time.sleep(RETURN)
        return pause(self.peers, since)

    def close(self) -> None:
        """Kill what is left."""
        for process in [*self.peers, self.broker]:
            process.kill()


def run(options: Options) -> None:
    """Measure and print."""
    found: dict[str, list[float]] = {}
    group = Group(options.timeout)
    try:
        for _ in range(options.turns):
            for how in ("kill", "exit", "stop"):
                found.setdefault(f"others pause after {how}", []).append(group.lose(how))
                others, joiner = group.join()
                found.setdefault("others pause when a peer joins", []).append(others)
                found.setdefault("a new peer's first step after its start", []).append(joiner)
        found["all pause when the broker dies and returns"] = [group.lose_broker()]
    finally:
        group.close()
    for event, seconds in found.items():
        print(f"{event}: median {statistics.median(seconds):.3f} s, longest {max(seconds):.3f} s")


if __name__ == "__main__":
    sys.exit(command("benchmarks.elastic", Options, run, __doc__, sys.argv[1:]))
