"""The accumulator's control thread: in each epoch it agrees on a leader and a model, and then makes steps.

An epoch begins with an all-gather of every member's model version. The leader is the member with the
greatest version; who has another model than the leader takes the leader's. To tell models of one version
apart (two halves of a group may each have made their own step), a model also has a *lineage*, a random
number drawn for each epoch by its leader and taken over at each step: equal version and lineage mean equal
bits. `moolib.accumulator.rounds` has the rest.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import torch

from moolib.accumulator import state_transfer
from moolib.accumulator.exchange import Exchange, Model
from moolib.accumulator.gradient_buffer import Layout
from moolib.accumulator.rounds import Diverged, Rounds
from moolib.group.group import Epoch, Group
from moolib.group.process_group import EpochOver, PeerLost
from moolib.log import log

STOP_TIMEOUT = 2.0  # seconds to wait for the thread to end; it looks every 10 ms


class Reducer:
    """Runs the protocol of one accumulator on a thread of its own."""

    def __init__(self, group: Group, name: str, layout: Layout, weighted: bool) -> None:
        self.exchange = Exchange()
        self._group, self._name = group, name
        self._rounds = Rounds(name, self.exchange, layout, weighted, self._wait)
        self._epoch: Epoch | None = None
        self._stopped = False
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
        self.exchange.control.ring()  # takes no lock: garbage collection may call this anywhere
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(STOP_TIMEOUT)

    def catch_up(self) -> None:
        """The program is back after having missed too much: start a new epoch, in which it gets the model."""
        with self.exchange.lock:
            self.exchange.behind = False
        if self._epoch:
            self._group._fail(self._epoch)

    # The rest runs on the control thread.

    def _run(self) -> None:
        while epoch := self._next_epoch():
            try:
                self._take_part(epoch)
            except EpochOver:
                log("verbose", "%s: epoch %d is over", self._name, epoch.sync_id)
            except (PeerLost, Diverged) as error:
                if isinstance(error, Diverged):
                    self.exchange.lineage = 0
                log("error" if isinstance(error, Diverged) else "info", "%s: %s", self._name, error)
                self._group._fail(epoch)
            except Exception as error:  # a mistake in the program's state or ours: the program is told
                self.exchange.error = error
                self.exchange.tell_program()
                return

    def _next_epoch(self) -> Epoch | None:
        """Wait for an epoch that we have not tried yet; None when stopped."""

        def current() -> bool:
            epoch = self._group._epoch
            return self._stopped or (epoch is not None and epoch is not self._epoch)

        self.exchange.control.wait_for(current)
        self._epoch = self._group._epoch
        return None if self._stopped else self._epoch

    def _over(self) -> bool:
        return self._stopped or self._epoch is None or self._epoch.over

    def _wait(self, condition: Callable[[], bool], timeout: float | None = None) -> bool:
        self.exchange.control.wait_for(lambda: condition() or self._over(), timeout)
        if not condition() and self._over():
            raise EpochOver
        return condition()

    def _take_part(self, epoch: Epoch) -> None:
        link = self._group._connect(epoch, self._name, self._over)
        try:
            leader, lineage = self._agree(epoch, link)
            self._rounds.begin(link, leader, lineage, self._group._timeout)
            while True:
                self._rounds.count()
        finally:
            link.abandon()

    def _agree(self, epoch: Epoch, link: state_transfer.Link) -> tuple[int, int]:
        """Choose the leader, and bring its model to who has another; its rank and the epoch's lineage."""
        exchange = self.exchange
        mine = [exchange.version, exchange.lineage, random.getrandbits(62) | 1]
        rows = link.all_gather(torch.tensor(mine)).tolist()
        lineages = [lineage for _, lineage, _ in rows]

        def order(rank: int) -> tuple[int, bool, int, str]:
            version, lineage, _ = rows[rank]
            return version, lineage != 0, lineages.count(lineage), epoch.members[rank]

        leader = max(range(link.size), key=order)
        version, lineage, new_lineage = rows[leader]
        needy = [rank for rank, row in enumerate(rows) if row[1] == 0 or row[:2] != rows[leader][:2]]
        lineage = lineage or new_lineage
        with exchange.lock:
            exchange.leader = epoch.sync_id, epoch.members[leader]
            if link.rank == leader:
                exchange.lineage = lineage
        exchange.tell_program()
        if set(needy) - {leader}:
            package = self._ask_for_state() if link.rank == leader else None
            package = state_transfer.spread(link, leader, package)
            if link.rank in needy and link.rank != leader:
                self._take_model(Model(*state_transfer.unpack(package)), version, lineage)
        return leader, new_lineage

    def _ask_for_state(self) -> state_transfer.Package:
        """As the leader: the model, from the program."""
        exchange = self.exchange
        with exchange.lock:
            exchange.package, exchange.state_wanted = None, True
        exchange.tell_program()
        try:
            self._wait(lambda: exchange.package is not None)
            assert exchange.package is not None
            return exchange.package
        finally:
            with exchange.lock:
                exchange.package, exchange.state_wanted = None, False

    def _take_model(self, model: Model, version: int, lineage: int) -> None:
        """As a follower: everything that belonged to another model is void."""
        exchange = self.exchange
        with exchange.lock:
            exchange.model, exchange.version, exchange.lineage = model, version, lineage
            exchange.generation += 1
            exchange.behind = False
            exchange.buffers = None
            exchange.inbox.clear()
            exchange.results.clear()
            self._rounds.forget()
        exchange.tell_program()
