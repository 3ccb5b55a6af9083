"""The rules of a group's membership, as the broker applies them; no input or output here.

Each change of the members (a join, a leave, a lost connection, missed pings) and each report of a failed
reduction starts a new *epoch*: the sync id increases by one and every member receives the new roster.
Changes are gathered for a moment, so that several at once make one epoch. While reports keep coming and the
roster stays the same, the epochs back off.

A restarted broker knows nothing, while its peers go on with their epoch. They announce themselves with that
epoch, and the first one tells the broker who the others are. Nothing changes until all of them are back or a
deadline passes; if all come back, the epoch goes on and training never notices.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from moolib.log import log

GATHER = 0.003  # s to gather changes: a lost connection and the reports that it causes arrive within 1 ms
MAX_BACKOFF = 2.0  # s between epochs when reductions keep failing although nobody left
FORGET_FAILURES = 10.0  # s without a failed reduction after which the backoff starts over
CUT_OFF = 0.3  # of a time-out: if all are silent for that long (each pings every 0.1), we are cut off
RETURN_TIME = 2.0  # s in which the members must come back after our restart; Rpc reconnects within 1 s
RETURN_TIME_AFTER_FAILURE = 0.3  # s, if a reduction has failed in the meantime: somebody will not come back
MAX_SYNC_ID = 2**32 - 1


@dataclass
class Member:
    """One peer of a group, as it announced itself."""

    name: str
    order: int  # smaller ones come first in the roster
    joined: int  # members of the same order are sorted by their time of joining
    timeout: float  # s without a ping until it counts as gone
    last_ping: float  # s, on the clock of `Membership`
    identity: dict[str, str]  # accumulator -> description of its model: the same on all members
    status: dict[str, Any] = field(default_factory=dict)  # from its last ping, for people to read


@dataclass
class Conflict:
    """The reason why a peer cannot join: `member` of the group has a different model."""

    member: str
    accumulator: str
    description: str


class Membership:
    """The members of one group.

    Args:
        group: The group's name, for the log.
        push: `push(sync_id, roster)` sends the epoch to all members.
        later: `later(seconds, function)` schedules a call.
        now: Returns the time in seconds.
    """

    def __init__(
        self,
        group: str,
        push: Callable[[int, list[str]], None],
        later: Callable[[float, Callable[[], None]], None],
        now: Callable[[], float],
    ) -> None:
        self.group = group
        self.members: dict[str, Member] = {}
        self.sync_id = random.randint(1, MAX_SYNC_ID)  # not 1: a stale epoch must not look like a new one
        self.roster: list[str] = []  # as last sent to the members
        self._push, self._later, self._now = push, later, now
        self._away: set[str] = set()  # members from before our restart that are not back yet
        self._joined = 0
        self._changed = False  # an epoch is due
        self._failures = 0
        self._last_failure = -FORGET_FAILURES

    def empty(self) -> bool:
        """Return True if there are no members and none are expected back."""
        return not self.members and not self._away

    def join(
        self, name: str, sync_id: int, roster: list[str], order: int, timeout: float, identity: dict[str, str]
    ) -> Conflict | None:
        """Add a peer that announces itself with its epoch (0 and [] if none).

        Returns:
            A conflict if the peer is refused, None if it is a member now.
        """
        conflict = self._conflict(name, identity)
        if conflict:
            return conflict
        if self.empty() and not self.roster and sync_id and name in roster:
            log("info", "group %s: goes on with sync id %d: %s", self.group, sync_id, ", ".join(roster))
            self.sync_id, self.roster, self._away = sync_id, roster, set(roster)
            self._later(RETURN_TIME, self._stop_waiting)
        same_epoch = sync_id == self.sync_id
        if name in self._away and same_epoch:
            joined = self.roster.index(name) - len(self.roster)  # before everybody who joins from now on
        elif name in self.members:  # if it lacks our epoch, that is on its way or sent after its next ping
            joined = self.members[name].joined
        else:
            joined = self._joined = self._joined + 1
            self._change(f"{name} joined")
        if name in self.members and self.members[name].order != order:
            self._change(f"{name} changed its order")
        self._away.discard(name)
        self.members[name] = Member(name, order, joined, timeout, self._now(), identity)
        if not self._away:
            self._later(0, self._form)
        return None

    def leave(self, name: str, why: str) -> None:
        """Remove a member, if it is one."""
        if self.members.pop(name, None):
            self._change(f"{name} {why}")

    def ping(self, name: str, sync_id: int, status: dict[str, Any]) -> bool:
        """Note a sign of life. Return False if the peer lacks the current epoch, which must be sent again."""
        member = self.members.get(name)
        if member:
            silence = self._silence()
            if silence > CUT_OFF * member.timeout:
                self.forgive(2 * silence)  # TCP backs off: its next attempt comes after as long again
            member.last_ping, member.status = self._now(), status
        return self._changed or bool(self._away) or (member is not None and sync_id == self.sync_id)

    def report(self, name: str, sync_id: int) -> None:
        """Start a new epoch, with backoff, because a member's reduction failed in this one."""
        if name not in self.members or sync_id != self.sync_id or self._changed:
            return
        if self._away:
            self._later(RETURN_TIME_AFTER_FAILURE, self._stop_waiting)
            return
        if self._now() - self._last_failure > FORGET_FAILURES:
            self._failures = 0
        self._last_failure = self._now()
        self._change(f"{name} reports a failed reduction", min(GATHER * 2**self._failures, MAX_BACKOFF))
        self._failures = min(self._failures + 1, 16)

    def expire(self) -> None:
        """Drop the members that sent no ping for their time-out; but if all are silent, we are cut off."""
        now, silence = self._now(), self._silence()
        for member in list(self.members.values()):
            if now - member.last_ping > member.timeout and silence <= CUT_OFF * member.timeout:
                self.leave(member.name, f"sent no ping for {member.timeout:g} s")

    def forgive(self, seconds: float) -> None:
        """Extend all deadlines by the time for which the broker itself was held up."""
        for member in self.members.values():
            member.last_ping += seconds

    def _silence(self) -> float:
        """Return the seconds since any member was last heard."""
        return self._now() - max((m.last_ping for m in self.members.values()), default=0.0)

    def _conflict(self, name: str, identity: dict[str, str]) -> Conflict | None:
        for member in self.members.values():
            for key, description in member.identity.items():
                if member.name != name and identity.get(key, description) != description:
                    return Conflict(member.name, key, description)
        return None

    def _stop_waiting(self) -> None:
        away, self._away = self._away, set()
        if away:
            self._change(f"{', '.join(sorted(away))} did not come back")

    def _change(self, why: str, delay: float = GATHER) -> None:
        log("info", "group %s: %s", self.group, why)
        self._changed = True
        self._later(delay, self._form)

    def _form(self) -> None:
        """Start the new epoch, if one is due."""
        if not self._changed or self._away:
            return
        self._changed = False
        roster = [m.name for m in sorted(self.members.values(), key=lambda m: (m.order, m.joined))]
        if roster != self.roster:
            self._failures = 0
        self.roster = roster
        self.sync_id = self.sync_id % MAX_SYNC_ID + 1
        log("info", "group %s: sync id %d: %s", self.group, self.sync_id, ", ".join(roster) or "nobody")
        self._push(self.sync_id, roster)
