"""How the members of an epoch make steps.

A step is made of *counts*: in each, every member contributes or skips once, and the sums of batch sizes are
compared with the leader's virtual batch size. While they are below it there is another count; then the
gradients are reduced. If the last two steps needed the same number of counts, that number is expected
again, and the gradients travel with the last expected count, which saves a round. So is the number to divide
by, so that gradients are divided while they are copied for the reduction; where it turns out to be another,
the sum is corrected. All members decide alike because they decide on reduced numbers.

A member keeps the sum of its own contributions until the step is done. When an epoch ends in between, they
take part in the first count of the next one, unless the member has to take another model.

Every `CHECK_INTERVAL` versions the members also compare checksums of their parameters; one that differs
from the leader's loses its model. And now and then the leader sends its buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from moolib.accumulator import state_transfer
from moolib.accumulator.exchange import Contribution, Exchange, Result
from moolib.accumulator.gradient_buffer import Counts, Flat, Layout
from moolib.log import log

BACKLOG = 8  # results that an idle program may fall behind before it has to take the model anew
MIN_SPLIT = 1 << 15  # elements of a buffer that is reduced in two parts
CHECK_INTERVAL = 100  # versions between two comparisons of checksums

Wait = Callable[[Callable[[], bool], float | None], bool]


class Diverged(Exception):
    """Our parameters differ from the leader's though they should not: we need its model."""


class Rounds:
    """The counts and steps of one accumulator; used by its control thread alone.

    Args:
        name: The accumulator's, for the log.
        exchange: Where contributions come from and results go to.
        layout: Of the gradients.
        weighted: Divide by the sum of batch sizes, not by the number of contributions.
        wait: `wait(condition, timeout)` waits until the condition is true, at most `timeout` seconds, and
            returns whether it is; it raises `EpochOver` if the epoch ends.
    """

    def __init__(self, name: str, exchange: Exchange, layout: Layout, weighted: bool, wait: Wait) -> None:
        self._name, self._exchange, self._layout, self._wait = name, exchange, layout, wait
        self._weighted = weighted
        self._link: state_transfer.Link
        self._leader = 0  # its rank
        self._lineage = 0  # of the models that this epoch makes
        self._timeout = 0.0  # seconds that the program has to answer
        self._idle = False  # it did not
        self._standing = False  # contributions of an earlier epoch take part in the first count of this one
        self._mine = Counts()  # our contributions to this step ...
        self._sum: Flat | None = None  # ... and the sum of their gradients
        self._last: Contribution | None = None
        self._counted = 0  # finished counts of this step
        self._needed = (0, 0)  # counts that the last two steps took
        self._divisor = 1.0  # of the last step

    def begin(self, link: state_transfer.Link, leader: int, lineage: int, timeout: float) -> None:
        """A new epoch, in which all members have the model of the member `leader`."""
        self._link, self._leader, self._lineage, self._timeout = link, leader, lineage, timeout
        self._counted, self._needed, self._idle = 0, (0, 0), False
        self._standing = self._mine.num_gradients + self._mine.num_skipped > 0

    def forget(self) -> None:
        """Our contributions are used, or void. To be called with the exchange locked."""
        if self._sum:
            self._layout.give_back(self._sum)
        self._mine, self._sum, self._last, self._exchange.busy = Counts(), None, None, 0

    def count(self) -> None:
        """One count, and the step if that completes it."""
        if not self._standing:
            self._add_contribution()
        self._standing = False
        check = self._counted == 0 and self._exchange.version % CHECK_INTERVAL == 0
        expected = self._link.size > 1 and self._counted + 1 == self._needed[0] == self._needed[1]
        flat = self._reduce(self._divisor) if expected else None
        counts = Counts.of(self._reduce_counts() if flat is None else flat.counts)
        divisor = max(1.0, counts.batch_size if self._weighted else counts.num_gradients)
        self._counted += 1
        if check:
            self._compare_checksums()
        if counts.buffers:
            self._share_buffers()
        if counts.num_gradients and counts.batch_size >= counts.virtual_batch_size:
            if flat is None:
                flat = self._reduce(divisor)
            elif divisor != self._divisor:
                flat.gradients.mul_(self._divisor / divisor)
            self._divisor = divisor
            self._finish_step(flat)
        elif flat:
            self._layout.give_back(flat)
        if counts.num_idle == self._link.size:
            self._idle = False  # all wait again, rather than count in circles
        with self._exchange.lock:
            self._exchange.busy = 0
        self._exchange.tell_program()

    def _add_contribution(self) -> None:
        """Wait for the program's next contribution and add it to ours."""
        exchange, mine = self._exchange, self._mine
        patience = 0.0 if self._idle else self._timeout if self._link.size > 1 else None
        if not self._wait(lambda: bool(exchange.inbox), patience):
            if not self._idle:
                log("error", "%s: no contribution or skip for %g s: taken as skipping", self._name, patience)
            self._idle = True
            self._mine = mine._replace(num_skipped=mine.num_skipped + 1)
            return
        self._idle = False
        with exchange.lock:
            given = self._last = exchange.inbox.popleft()
            exchange.busy += 1
            late = exchange.version - given.version >= exchange.parallel_gradients
            void = late or given.generation != exchange.generation
        if given.flat is None or void:
            self._mine = mine._replace(num_skipped=mine.num_skipped + 1)
            return
        self._mine = mine._replace(
            num_gradients=mine.num_gradients + 1, batch_size=mine.batch_size + given.batch_size
        )
        if self._sum is None:
            self._sum = given.flat
        else:
            self._sum.buffer.add_(given.flat.buffer)
            self._layout.give_back(given.flat)

    def _our_counts(self) -> torch.Tensor:
        leads = self._leads()
        return self._mine._replace(
            num_idle=float(self._idle),
            virtual_batch_size=self._exchange.virtual_batch_size if leads else 0,
            buffers=float(leads and self._last is not None and self._last.buffers is not None),
        ).tensor()

    def _reduce_counts(self) -> torch.Tensor:
        counts = self._our_counts()
        self._link.all_reduce([counts])
        return counts

    def _reduce(self, divisor: float) -> Flat:
        """The sum of all contributions to this step, their gradients over `divisor`.

        A buffer that fails on its way is not used again.
        """
        flat = self._layout.take()
        self._link.all_reduce(self._filled(flat, divisor))
        return flat

    def _filled(self, flat: Flat, divisor: float) -> Iterator[torch.Tensor]:
        """The parts of `flat` that are to be reduced, each as soon as our contributions are in it.

        Between two members there are two, of which one is added up while the other is sent. More members gain
        nothing by that.
        """
        count = 2 if self._link.size == 2 and len(flat.buffer) >= MIN_SPLIT else 1
        parts = flat.buffer.chunk(count)
        ours = self._sum.buffer.chunk(count) if self._sum else None
        for i, part in enumerate(parts):
            if ours:
                torch.mul(ours[i], 1.0 / divisor, out=part)
            else:
                part.zero_()
            if i == count - 1:
                flat.counts.copy_(self._our_counts())
            yield part

    def _finish_step(self, flat: Flat) -> None:
        self._needed = (self._counted, self._needed[0])
        self._counted = 0
        exchange = self._exchange
        with exchange.lock:
            exchange.version += 1
            self.forget()
            if exchange.lineage:
                exchange.lineage = self._lineage
                exchange.results.append(Result(flat, Counts.of(flat.counts)))
            if len(exchange.results) > BACKLOG + exchange.parallel_gradients:
                exchange.results.clear()
                exchange.lineage, exchange.behind = 0, True

    def _compare_checksums(self) -> None:
        """Diverged if we and the leader know the checksums of this version, and they differ."""
        last = self._last
        known = last is not None and last.checksum is not None and last.version == self._exchange.version
        mine = torch.tensor([known, last.checksum if known and last else 0])
        rows = self._link.all_gather(mine).tolist()
        leader = rows[self._leader]
        if known and leader[0] and leader != rows[self._link.rank]:
            raise Diverged(f"parameters of version {self._exchange.version} differ from the leader's")

    def _share_buffers(self) -> None:
        last = self._last
        package = last.buffers if self._leads() and last else None
        package = state_transfer.spread(self._link, self._leader, package)
        if self._leads() and last:
            last.buffers = None
        else:
            buffers = state_transfer.unpack(package)
            with self._exchange.lock:
                self._exchange.buffers = buffers

    def _leads(self) -> bool:
        return self._link.rank == self._leader
