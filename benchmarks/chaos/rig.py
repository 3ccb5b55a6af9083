"""A broker and training peers as real processes on this machine, and the check of their logs."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import random
import signal
import statistics
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.chaos import checked_peer
from benchmarks.chaos.ledger import Event, Findings, History, Ledger
from rigs.processes import PATIENCE, Broker, Hang, wait_until

TOGETHER = 15  # updates that all live peers must make together before and after each fault

_forks = multiprocessing.get_context("forkserver")  # imports torch only once, so that peers start at once
_forks.set_forkserver_preload(["benchmarks.chaos.checked_peer"])


class Peer:
    """A process that runs `benchmarks.chaos.checked_peer`, and its log."""

    def __init__(self, settings: checked_peer.Settings) -> None:
        self.settings = settings
        self.id = f"{settings.name}-{settings.slot}"
        self.hurt = False  # whether something was done to it that may make it lose an update
        self.events: list[Event] = []
        self.checked = 0  # events that the ledger has seen
        self._read = 0  # bytes of the log
        theirs, self._commands = _forks.Pipe(duplex=False)
        self._process = _forks.Process(target=checked_peer.main, args=(settings, theirs), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def alive(self) -> bool:
        """Whether the process is running."""
        return self._process.is_alive()

    def tell(self, command: str) -> None:
        """Give a command; see `benchmarks.chaos.checked_peer.Peer.obey`."""
        self._commands.send(command)

    def signal(self, number: int) -> None:
        """Send a signal."""
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def end(self, patience: float = PATIENCE) -> int:
        """Wait for the end of the process; return the exit status, negative for a signal.

        Raises:
            Hang: It goes on.
        """
        self._process.join(patience)
        if self._process.exitcode is None:
            raise Hang(f"{self.id} does not end")
        return self._process.exitcode

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.join()

    def errors(self) -> str:
        """Return what the process wrote to the standard error."""
        path = self.settings.path("err")
        return path.read_text() if path.exists() else ""

    def read(self) -> list[Event]:
        """Return all events so far; a line that is half written is left for the next time."""
        path = self.settings.path("jsonl")
        if path.exists():
            with open(path, "rb") as log:
                log.seek(self._read)
                text = log.read()
            text = text[: text.rfind(b"\n") + 1]
            self._read += len(text)
            self.events += map(json.loads, text.splitlines())
        return self.events

    def updates(self, since: float) -> Iterator[Event]:
        """Yield the updates since that time, the newest first."""
        recent = itertools.takewhile(lambda event: event["time"] >= since, reversed(self.read()))
        return (event for event in recent if event["event"] == "update")


@dataclass
class Watch:
    """The observation of one fault."""

    pause: float = 0.0  # seconds, the longest of a survivor


class Rig:
    """The broker, the peers, and the ledger of their updates."""

    def __init__(
        self, broker: Broker, directory: Path, timeout: float, seed: int, pause: float = 0.01
    ) -> None:
        self.broker = broker
        self.directory, self.timeout, self.pause = directory, timeout, pause
        self.random = random.Random(seed)
        self.ledger = Ledger()
        self.peers: list[Peer] = []  # those that should train
        self.gone: list[Peer] = []
        self._slots = itertools.count()

    def start(self, name: str | None = None, **more: Any) -> Peer:
        """Start a peer without waiting for it; `more` are further settings."""
        slot = next(self._slots)
        where = (self.broker.address, name or f"peer{slot}", slot, str(self.directory))
        settings = checked_peer.Settings(*where, self.timeout, self.pause, **more)
        started = Peer(settings)
        self.peers.append(started)
        return started

    def drop(self, one: Peer) -> None:
        """Take out a peer that will not train any more; its log is checked once more."""
        self.peers.remove(one)
        self.gone.append(one)

    def leader(self) -> Peer:
        """Return the leader, while all train together."""
        leaders = [one for one in self.peers if next(one.updates(0.0))["leads"]]
        assert len(leaders) == 1
        return leaders[0]

    def follower(self) -> Peer:
        """Return any peer but the leader."""
        leader = self.leader()
        return self.random.choice([one for one in self.peers if one is not leader])

    def anyone(self) -> Peer:
        """Return any peer."""
        return self.random.choice(self.peers)

    def train_together(self, members: Collection[Peer] = (), patience: float = PATIENCE) -> None:
        """Wait until these peers (by default all), and no others, have made some updates together.

        Raises:
            Hang: They do not in time.
        """
        since, members = time.monotonic(), members or self.peers

        def enough(one: Peer) -> bool:
            if not one.alive:
                raise Hang(f"{one.id} has ended: {one.errors()}")
            together = (u for u in one.updates(since) if u["members"] == len(members))
            return len(list(itertools.islice(together, TOGETHER))) == TOGETHER

        names = ", ".join(one.id for one in members)
        wait_until(lambda: all(map(enough, members)), f"{names} train together", patience)

    @contextmanager
    def watch(self, *victims: Peer) -> Iterator[Watch]:
        """Measure the longest pause of all peers but the victims, which count as hurt."""
        for victim in victims:
            victim.hurt = True
        watch, since = Watch(), time.monotonic()
        survivors = [one for one in self.peers if one not in victims]
        yield watch
        for survivor in survivors:
            times = [update["time"] for update in survivor.updates(since - 1.0)]
            gaps = [later - earlier for later, earlier in itertools.pairwise(times)]
            watch.pause = max(watch.pause, max(gaps) - statistics.median(gaps))

    def check(self) -> Findings:
        """Let the ledger check all new events; hurt peers count as recovered from now on."""
        histories = []
        for one in [*self.peers, *self.gone]:
            new = one.read()[one.checked :]
            one.checked += len(new)
            histories.append(History(one.id, one in self.peers, one.hurt, new))
            one.hurt = False
        self.gone.clear()
        return self.ledger.check(histories)

    def dump(self) -> str:
        """Return what each peer is doing and has written, to find the reason for a hang."""
        for one in self.peers:
            if one.alive:
                one.signal(signal.SIGUSR1)
        time.sleep(1.0)
        parts = ["broker:", *self.broker.errors.splitlines()[-40:]]
        for one in self.peers:
            last = next(one.updates(0.0), None)
            parts.append(f"{one.id}: alive={one.alive}, last {last}\n{one.errors()}")
        return "\n".join(parts)

    def close(self) -> None:
        """Kill what is left."""
        for one in self.peers:
            one.signal(signal.SIGCONT) if one.alive else None
            one.kill()
        self.broker.signal(signal.SIGCONT)
        self.broker.kill()
