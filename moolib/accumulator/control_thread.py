"""The accumulator's control thread: in each epoch it agrees on a leader and a model, and then makes steps.

An epoch begins with an all-gather of every member's model version. The member with the greatest version
leads; a member whose model differs adopts the leader's. Models of one version may differ (two halves of a
group may each have made their own step), so a model also has a *lineage*: a random number that the leader
of each epoch draws and that the model takes at each step. Equal version and lineage mean equal bits. The
steps are made in `moolib.accumulator.rounds`.
"""

from __future__ import annotations

import random
import threading
import traceback
from collections.abc import Callable

import torch

from moolib.accumulator import state_transfer
from moolib.accumulator.exchange import Exchange, Model
from moolib.accumulator.gradient_buffer import GradientLayout
from moolib.accumulator.rounds import Diverged, Rounds
from moolib.future import fresh
from moolib.group.broker_client import BrokerClient
from moolib.group.epoch import Epoch
from moolib.group.process_group import EpochOver, PeerLost, ProcessGroup
from moolib.log import log
from moolib.weak import weak

STOP_TIMEOUT = 2.0  # s to wait for the thread to end; it checks every 10 ms


class ControlThread:
    """Runs the protocol of one accumulator on a thread of its own.

    Args:
        client: Provides the epochs.
        name: The accumulator's.
        layout: Of the gradients.
        weighted: See `Accumulator`.
    """

    def __init__(self, client: BrokerClient, name: str, layout: GradientLayout, weighted: bool) -> None:
        self.exchange = Exchange()
        self._client, self._name = client, name
        self._rounds = Rounds(name, self.exchange, layout, weighted, weak(self._wait))
        self._epoch: Epoch | None = None
        self._stopped = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, unless it was started before."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"moolib-{self._name}", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread; bounded in time."""
        self._stopped = True
        self.exchange.control.set()  # takes no lock: garbage collection may call this anywhere
        if self._thread and threading.current_thread() is not self._thread:
            self._thread.join(STOP_TIMEOUT)

    def catch_up(self) -> None:
        """Ask for a new epoch, in which a program that has missed too many results gets the model."""
        with self.exchange.lock:
            self.exchange.behind = False
        if self._epoch:
            self._client.report_failure(self._epoch)

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
                self._client.report_failure(epoch)
            except Exception as error:  # a bug in the program's state or here: `update()` raises it
                error.add_note(traceback.format_exc())
                self.exchange.error = fresh(error)
                self.exchange.notify_program()
                return

    def _next_epoch(self) -> Epoch | None:
        """Wait for an epoch that we have not tried yet; return None when stopped."""

        def current() -> bool:
            epoch = self._client.epoch
            return self._stopped or (epoch is not None and epoch is not self._epoch)

        self.exchange.control.wait_for(current)
        self._epoch = self._client.epoch
        return None if self._stopped else self._epoch

    def _over(self) -> bool:
        return self._stopped or self._epoch is None or self._epoch.over

    def _wait(self, condition: Callable[[], bool], timeout: float | None = None) -> bool:
        self.exchange.control.wait_for(lambda: condition() or self._over(), timeout)
        if not condition() and self._over():
            raise EpochOver
        return condition()

    def _take_part(self, epoch: Epoch) -> None:
        group = self._client.connect(epoch, self._name, weak(self._over))
        try:
            leader, lineage = self._agree(epoch, group)
            self._rounds.begin(group, leader, lineage, self._client.timeout)
            while True:
                self._rounds.run_round()
        finally:
            group.abandon()

    def _agree(self, epoch: Epoch, group: ProcessGroup) -> tuple[int, int]:
        """Choose the leader and send its model to the stale members; return its rank and the new lineage."""
        exchange = self.exchange
        mine = [exchange.version, exchange.lineage, random.getrandbits(62) | 1]
        rows = group.all_gather(torch.tensor(mine)).tolist()
        lineages = [lineage for _, lineage, _ in rows]

        def order(rank: int) -> tuple[int, bool, int, str]:
            version, lineage, _ = rows[rank]
            return version, lineage != 0, lineages.count(lineage), epoch.members[rank]

        leader = max(range(group.size), key=order)
        version, lineage, new_lineage = rows[leader]
        stale = {rank for rank, row in enumerate(rows) if row[1] == 0 or row[:2] != rows[leader][:2]}
        stale.discard(leader)
        lineage = lineage or new_lineage
        with exchange.lock:
            exchange.leader = epoch.sync_id, epoch.members[leader]
            if group.rank == leader:
                exchange.lineage = lineage
        exchange.notify_program()
        if stale:
            package = self._ask_for_state() if group.rank == leader else None
            package = state_transfer.broadcast(group, leader, package)
            if group.rank in stale:
                self._adopt(Model(*state_transfer.unpack(package)), version, lineage)
        return leader, new_lineage

    def _ask_for_state(self) -> state_transfer.Package:
        """As the leader, get the model from the program."""
        exchange = self.exchange
        with exchange.lock:
            exchange.package, exchange.state_wanted = None, True
        exchange.notify_program()
        try:
            self._wait(lambda: exchange.package is not None)
            assert exchange.package is not None
            return exchange.package
        finally:
            with exchange.lock:
                exchange.package, exchange.state_wanted = None, False

    def _adopt(self, model: Model, version: int, lineage: int) -> None:
        """As a follower, replace the model, and drop everything that belonged to the previous one."""
        exchange = self.exchange
        with exchange.lock:
            exchange.model, exchange.version, exchange.lineage = model, version, lineage
            exchange.generation += 1
            exchange.behind = False
            exchange.buffers = None
            exchange.inbox.clear()
            exchange.results.clear()
            self._rounds.clear_contributions()
        exchange.notify_program()
