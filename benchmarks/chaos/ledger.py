"""Check the logs of a run's peers: no update is lost, doubled or wrong, and all models are equal.

A peer's log is cut into *stretches*, within which each update follows from the one before. A stretch ends
where the peer adopts the group's model, or with the peer. A peer that was hurt (killed, stopped, cut off) may
have made an update that the others never saw. They have then made another one of that version, and the peer
drops its own when it adopts their model. The others' stretches together form the *chain*: one update for each
version.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

Event = dict[str, Any]


@dataclass
class History:
    """The events that one process has logged since the last check."""

    name: str
    alive: bool
    hurt: bool  # something was done to it that may make it lose an update
    events: list[Event]

    def stretches(self) -> list[list[Event]]:
        """Return the updates, cut where the peer adopted the group's model; the last stretch may be empty."""
        stretches: list[list[Event]] = [[]]
        for event in self.events:
            if event["event"] == "took":
                stretches.append([])
            elif event["event"] == "update":
                stretches[-1].append(event)
        return stretches


@dataclass
class Findings:
    """The problems found, and the number of updates by unhurt peers that are missing from the chain."""

    problems: list[str] = field(default_factory=list)
    lost: int = 0


class Ledger:
    """The chain of updates, followed from check to check."""

    def __init__(self) -> None:
        self.tip = 0  # the version of the last update of the chain
        self.models: dict[int, int] = {}  # version -> checksum of the model
        self._last_serial: dict[str, int] = {}  # slot -> of its last contribution that was applied
        self._last_version: dict[str, int] = {}  # process -> version that it had last

    def check(self, histories: Collection[History]) -> Findings:
        """Check all events since the last time, at a moment when the peers form one group."""
        findings = Findings()
        chain = self._extend_chain(histories, findings)
        for version in sorted(chain):
            self._check_update(version, chain[version], findings)
        for history in histories:
            self._check_history(history, findings)
        return findings

    def _extend_chain(self, histories: Iterable[History], findings: Findings) -> dict[int, Event]:
        """Return the new updates of the chain by version; report gaps between the old tip and the new one."""
        new: dict[int, Event] = {}
        for history in sorted(histories, key=lambda h: (not h.alive, h.hurt)):
            stretches = history.stretches()
            current = stretches.pop() if history.alive else []  # no update of it was ever dropped
            for update in itertools.chain(current, *stretches):
                if update["version"] > self.tip:
                    new.setdefault(update["version"], update)
        tip = max(new, default=self.tip)
        missing = [version for version in range(self.tip + 1, tip + 1) if version not in new]
        if missing:
            findings.problems.append(f"updates {missing[:3]} are in nobody's log")
        self.tip = tip
        self.models |= {version: update["model"] for version, update in new.items()}
        return new

    def _check_update(self, version: int, update: Event, findings: Findings) -> None:
        """Report a wrong sum, or a contribution that was applied before."""
        if not update["right"]:
            findings.problems.append(f"version {version}: wrong sum {update['parts']}")
        for slot, (count, serials) in update["parts"].items():
            first, rest = divmod(serials - count * (count - 1) // 2, count)  # of consecutive serial numbers
            if rest or first <= self._last_serial.get(slot, 0):
                findings.problems.append(f"version {version}: contributions of {slot} were applied twice")
            self._last_serial[slot] = first + count - 1

    def _check_history(self, history: History, findings: Findings) -> None:
        """Report versions that do not grow by one, and models that are not those of the chain."""
        last = self._last_version.get(history.name, 0)
        for event in history.events:
            version, kind = event["version"], event["event"]
            follows = version == last + 1 if kind == "update" and last else version >= last
            if kind in ("update", "took") and not follows:
                findings.problems.append(f"{history.name}: version {version} after {last}")
            if kind == "took" and self.models.get(version, event["model"]) != event["model"]:
                findings.problems.append(f"{history.name}: adopted another model than version {version}'s")
            last = version
        self._last_version[history.name] = last
        stretches = history.stretches()
        if history.alive and (wrong := self._off_chain(stretches[-1])):
            findings.problems.append(f"{history.name}: another model at versions {wrong[:3]}")
        if not history.hurt:
            findings.lost += len(self._off_chain(itertools.chain(*stretches)))

    def _off_chain(self, updates: Iterable[Event]) -> list[int]:
        """Return the versions of the updates that are not part of the chain."""
        return [u["version"] for u in updates if u["model"] != self.models.get(u["version"])]
