"""The accumulator's control thread: it agrees on a leader and a model in each epoch, then reduces round after round.

An epoch begins with an all-gather of every member's model version. The leader is the member with the greatest version;
who has another model than the leader takes the leader's. To tell models of one version apart (two halves of a group may
each have made their own step), a model also has a *lineage*, a random number drawn for each epoch by its leader and
taken over at each step: equal version and lineage mean equal bits.

A step is made of *counts*: in each, every member contributes or skips once, and the sums of batch sizes are compared with
the leader's virtual batch size. While they are below it there is another count; then the gradients are reduced. If the
last two steps needed the same number of counts, that number is expected again, and the gradients travel with the last
expected count, which saves a round. All members decide alike because they decide on reduced numbers.

A member keeps the sum of its own contributions until the step is done. When an epoch ends in between, they are
contributed again in the next one, unless the member has to take another model.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from moolib import handover
from moolib.flat import Counts, Flat, Layout
from moolib.gloo import EpochOver, PeerLost
from moolib.group import Epoch, Group
from moolib.log import log

BACKLOG = 8  # results that an idle program may fall behind before it has to take the model anew
STOP_TIMEOUT = 2.0  # seconds to wait for the thread to end; it looks every 10 ms


@dataclass
class Contribution:
    """What the program gave for one count."""

    flat: Flat | None  # None for a skip
    batch_size: int
    version: int  # of the model that the gradients were computed with
    generation: int  # of `Reducer.generation`, as known to the program


@dataclass
class Result:
    """One finished step."""

    flat: Flat  # the sum of the gradients
    counts: Counts


@dataclass
class Model:
    """A model that came from the leader."""

    parameters: list[torch.Tensor]
    buffers: list[torch.Tensor]
    state: Any


class Reducer:
    """What the training thread (`Accumulator`) and the control thread share. `changed` guards all public attributes."""

    def __init__(self, group: Group, name: str, layout: Layout) -> None:
        self.changed = threading.Condition()
        self.events = 0  # counts whatever the program may want to act on
        self.inbox: deque[Contribution] = deque()
        self.busy = 0  # contributions that are being counted
        self.results: deque[Result] = deque()  # steps that the program has not taken yet
        self.model: Model | None = None  # taken from the leader, for the program to load
        self.generation = 0  # counts the models taken; a contribution to an older one is void
        self.version = 0  # of the model, with all of `results` applied
        self.lineage = 0  # see above; 0: there is no model
        self.behind = False  # the program missed so many results that it needs the model anew
        self.leader = ""
        self.state_wanted = False
        self.package: handover.Package | None = None  # the program's answer
        self.virtual_batch_size = 1
        self.parallel_gradients = 1
        self.error: Exception | None = None
        self._group, self._name, self._layout = group, name, layout
        self._epoch: Epoch
        self._link: handover.Link
        self._stopped = False
        self._idle = False  # the program did not answer for the group's time-out
        self._standing = False  # contributions of an earlier epoch take part in the first count of this one
        self._mine = Counts()  # our contributions to this step ...
        self._sum: Flat | None = None  # ... and the sum of their gradients
        self._counted = 0  # finished counts of this step
        self._needed = (0, 0)  # counts that the last two steps took
        self._epoch_lineage = 0
        self._thread = threading.Thread(target=self._run, name=f"moolib-{name}", daemon=True)

    def start(self) -> None:
        """Begin; once."""
        self._thread.start()

    def started(self) -> bool:
        """Whether `start` was called."""
        return self._thread.ident is not None

    def stop(self) -> None:
        """End the thread; bounded in time."""
        self._stopped = True
        self.wake()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(STOP_TIMEOUT)

    def wake(self) -> None:
        """Something changed."""
        with self.changed:
            self.events += 1
            self.changed.notify_all()

    def put(self, contribution: Contribution) -> None:
        """Contribute to the next count."""
        with self.changed:
            self.inbox.append(contribution)
            self.changed.notify_all()

    def room(self) -> bool:
        """Whether another contribution may be put."""
        return len(self.inbox) + self.busy + len(self.results) < self.parallel_gradients

    def catch_up(self) -> None:
        """The program is back: start a new epoch, in which it gets the model."""
        self.behind = False
        self._group._fail(self._epoch)

    # The rest runs on the control thread.

    def _run(self) -> None:
        while not self._stopped:
            try:
                self._wait_for_epoch()
                self._link = self._group._connect(self._epoch, self._name, self._over)
                try:
                    self._agree()
                    while True:
                        self._count()
                finally:
                    self._link.abandon()
            except EpochOver:
                log("verbose", "%s: epoch %d is over", self._name, self._epoch.sync_id)
            except PeerLost as error:
                log("info", "%s: a reduction failed: %s", self._name, error)
                self._group._fail(self._epoch)
                self._wait(lambda: self._over())
            except Exception as error:
                with self.changed:
                    self.error = error
                self.wake()
                return

    def _over(self) -> bool:
        return self._epoch.over or self._stopped

    def _wait(self, condition: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until `condition()` is true, at most `timeout` seconds; EpochOver if the epoch ends."""
        with self.changed:
            result = self.changed.wait_for(lambda: condition() or self._over(), timeout)
            if not condition() and self._over():
                raise EpochOver
            return result

    def _wait_for_epoch(self) -> None:
        def current() -> bool:
            return self._stopped or (self._group._epoch is not None and not self._group._epoch.over)

        with self.changed:
            self.leader = ""
            self.changed.wait_for(current)
        epoch = self._group._epoch
        if self._stopped or epoch is None:
            raise EpochOver
        self._epoch = epoch

    def _agree(self) -> None:
        """Choose the leader, and bring its model to all who have another one."""
        members = self._epoch.members
        mine = torch.tensor([self.version, self.lineage, random.getrandbits(62) | 1])
        rows = self._link.all_gather(mine).tolist()
        having = [lineage for _, lineage, _ in rows]

        def rank_order(rank: int) -> tuple:
            version, lineage, _ = rows[rank]
            return version, lineage != 0, having.count(lineage), members[rank]

        leader = max(range(len(members)), key=rank_order)
        version, lineage, self._epoch_lineage = rows[leader]
        needy = [
            r for r, row in enumerate(rows) if r != leader and (row[1] == 0 or row[:2] != rows[leader][:2])
        ]
        with self.changed:
            self.leader = members[leader]
            if self._link.rank == leader:
                self.lineage = lineage or self._epoch_lineage
        self.wake()
        if needy and self._link.rank == leader:
            handover.spread(self._link, [leader, *needy], self._ask_for_state())
        elif self._link.rank in needy:
            package = handover.spread(self._link, [leader, *needy], None)
            self._take_model(Model(*handover.unpack(package)), version, lineage or self._epoch_lineage)
        self._counted, self._needed, self._idle = 0, (0, 0), False
        self._standing = self._mine.num_gradients + self._mine.num_skipped > 0

    def _ask_for_state(self) -> handover.Package:
        """As the leader: the model, from the program."""
        with self.changed:
            self.package, self.state_wanted = None, True
        self.wake()
        try:
            self._wait(lambda: self.package is not None)
            assert self.package is not None
            return self.package
        finally:
            with self.changed:
                self.package, self.state_wanted = None, False

    def _take_model(self, model: Model, version: int, lineage: int) -> None:
        """As a follower: everything that belonged to another model is void."""
        with self.changed:
            self.model, self.version, self.lineage = model, version, lineage
            self.generation += 1
            self.inbox.clear()
            self.results.clear()
            self._forget_contributions()
        self.wake()

    def _forget_contributions(self) -> None:
        if self._sum:
            self._layout.give_back(self._sum)
        self._mine, self._sum, self.busy = Counts(), None, 0

    def _count(self) -> None:
        """One count, and the step if that completes it."""
        if not self._standing:
            self._add_contribution()
        self._standing = False
        expected = self._counted + 1 == self._needed[0] == self._needed[1]
        flat = self._reduce() if expected else None
        counts = Counts.of(self._reduce_counts() if flat is None else flat.counts)
        self._counted += 1
        if counts.num_gradients and counts.batch_size >= counts.virtual_batch_size:
            self._finish_step(flat or self._reduce())
        elif flat:
            self._layout.give_back(flat)
        if counts.num_idle == self._link.size:
            self._idle = False  # all wait again, rather than count in circles
        with self.changed:
            self.busy = 0
        self.wake()

    def _add_contribution(self) -> None:
        """Wait for the program's next contribution and add it to ours."""
        answered = self._wait(lambda: bool(self.inbox), self._patience())
        if not answered:
            if not self._idle:
                log(
                    "error",
                    "%s: did not contribute or skip for %g s: taken as skipping",
                    self._name,
                    self._patience(),
                )
            self._idle = True
            self._mine.num_skipped += 1
            return
        with self.changed:
            self._idle = False
            given = self.inbox.popleft()
            self.busy += 1
            stale = (
                given.generation != self.generation or self.version - given.version >= self.parallel_gradients
            )
        if given.flat is None or stale:
            self._mine.num_skipped += 1
        else:
            self._mine.num_gradients += 1
            self._mine.batch_size += given.batch_size
            if self._sum is None:
                self._sum = given.flat
            else:
                self._sum.buffer.add_(given.flat.buffer)
                self._layout.give_back(given.flat)

    def _patience(self) -> float | None:
        """Seconds to wait for the program: for ever when nobody else does."""
        if self._link.size == 1:
            return None
        return 0.0 if self._idle else self._group._timeout

    def _our_counts(self) -> torch.Tensor:
        leading = self._epoch.members[self._link.rank] == self.leader
        virtual = self.virtual_batch_size if leading else 0
        return replace(self._mine, num_idle=float(self._idle), virtual_batch_size=virtual).tensor()

    def _reduce_counts(self) -> torch.Tensor:
        counts = self._our_counts()
        self._link.all_reduce(counts)
        return counts

    def _reduce(self) -> Flat:
        """The sum of all members' contributions to this step. A buffer that fails on its way is not used again."""
        flat = self._layout.take()
        if self._sum:
            flat.buffer.copy_(self._sum.buffer)
        else:
            flat.buffer.zero_()
        flat.counts.copy_(self._our_counts())
        self._link.all_reduce(flat.buffer)
        return flat

    def _finish_step(self, flat: Flat) -> None:
        counts = Counts.of(flat.counts)
        self._needed = (self._counted, self._needed[0])
        self._counted = 0
        with self.changed:
            self.version += 1
            self._forget_contributions()
            if self.lineage:
                self.lineage = self._epoch_lineage
                self.results.append(Result(flat, counts))
            if len(self.results) > BACKLOG + self.parallel_gradients:
                self.results.clear()
                self.lineage, self.behind = 0, True
