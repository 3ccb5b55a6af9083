"""The steps that the members of an epoch make.

A step consists of *rounds*: in each round, every member contributes or skips once, and the sum of batch
sizes is compared with the leader's virtual batch size. While it is smaller, another round follows; then the
gradients are reduced. If the last two steps took the same number of rounds, that number is expected again,
and the gradients travel with the last expected round, which saves one reduction. The divisor is predicted,
too, so that gradients are divided while they are copied for the reduction; if it turns out differently, the
sum is corrected. All members decide the same because they decide on reduced numbers.

A member keeps the sum of its own contributions until the step is done. If an epoch ends before that, they are
carried over to the first round of the next one, unless the member has to adopt another model.

Every `CHECK_INTERVAL` versions the members also compare checksums of their parameters; a member whose
checksum differs from the leader's loses its model. From time to time the leader sends its buffers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import torch

from moolib.accumulator import state_transfer
from moolib.accumulator.exchange import Contribution, Exchange, Result
from moolib.accumulator.gradient_buffer import Counts, GradientBuffer, GradientLayout
from moolib.group.process_group import ProcessGroup
from moolib.log import log

BACKLOG = 8  # results that an idle program may miss before it needs a model from the leader
MIN_SPLIT = 1 << 15  # elements of a buffer that is reduced in two parts
CHECK_INTERVAL = 100  # versions between two comparisons of checksums

Wait = Callable[[Callable[[], bool], float | None], bool]


class Diverged(Exception):
    """Our parameters differ from the leader's although they should not: we need its model."""


class Rounds:
    """The rounds and steps of one accumulator; used by its control thread only.

    Args:
        name: The accumulator's, for the log.
        exchange: The source of contributions and the destination of results.
        layout: Of the gradients.
        weighted: Divide by the sum of batch sizes, not by the number of contributions.
        wait: `wait(condition, timeout)` waits until the condition is true, for at most `timeout` seconds, and
            returns its value; it raises `EpochOver` if the epoch ends.
    """

    def __init__(
        self, name: str, exchange: Exchange, layout: GradientLayout, weighted: bool, wait: Wait
    ) -> None:
        self._name, self._exchange, self._layout, self._wait = name, exchange, layout, wait
        self._weighted = weighted
        self._group: ProcessGroup
        self._leader = 0  # its rank
        self._lineage = 0  # of the models that this epoch makes
        self._timeout = 0.0  # s that the program has to answer
        self._idle = False  # it did not answer: do not wait for it until it does
        self._answered = False  # it has contributed to this step or skipped
        self._carried_over = False  # contributions of an earlier epoch take part in the next round
        self._mine = Counts()  # our contributions to this step ...
        self._sum: GradientBuffer | None = None  # ... and the sum of their gradients
        self._last: Contribution | None = None
        self._finished = 0  # rounds of this step
        self._needed = (0, 0)  # rounds that the last two steps took
        self._divisor = 1.0  # of the last step

    def begin(self, group: ProcessGroup, leader: int, lineage: int, timeout: float) -> None:
        """Begin an epoch in which all members have the model of the member with rank `leader`."""
        self._group, self._leader, self._lineage, self._timeout = group, leader, lineage, timeout
        self._finished, self._needed, self._idle = 0, (0, 0), False
        self._carried_over = self._mine.num_gradients + self._mine.num_skipped > 0

    def clear_contributions(self) -> None:
        """Drop our contributions, which are used or void. Call this with the exchange locked."""
        if self._sum:
            self._layout.give_back(self._sum)
        self._mine, self._sum, self._last, self._exchange.busy = Counts(), None, None, 0
        self._answered = False

    def run_round(self) -> None:
        """Run one round, and the step if the round completes it.

        Raises:
            Diverged: Our parameters differ from the leader's.
            EpochOver, PeerLost: See `EpochGroup`.
        """
        if not self._carried_over:
            self._add_contribution()
        self._carried_over = False
        check = self._finished == 0 and self._exchange.version % CHECK_INTERVAL == 0
        expected = self._group.size > 1 and self._finished + 1 == self._needed[0] == self._needed[1]
        gradients = self._reduce(self._divisor) if expected else None
        counts = Counts.of(self._reduce_counts() if gradients is None else gradients.counts)
        divisor = max(1.0, counts.batch_size if self._weighted else counts.num_gradients)
        self._finished += 1
        if check:
            self._compare_checksums()
        if counts.buffers:
            self._share_buffers()
        if counts.num_gradients and counts.batch_size >= counts.virtual_batch_size:
            if gradients is None:
                gradients = self._reduce(divisor)
            elif divisor != self._divisor:
                gradients.gradients.mul_(self._divisor / divisor)
            self._divisor = divisor
            self._finish_step(gradients)
        elif gradients:
            self._layout.give_back(gradients)
        if counts.num_idle == self._group.size:
            self._idle = False  # wait again, rather than run empty rounds without pause
        with self._exchange.lock:
            self._exchange.busy = 0
        self._exchange.notify_program()

    def _add_contribution(self) -> None:
        """Wait for the program's contribution to this round and add it to ours."""
        mine, given = self._mine, self._next_contribution()
        if given is None or given.gradients is None:
            self._mine = mine._replace(num_skipped=mine.num_skipped + 1)
            return
        self._mine = mine._replace(
            num_gradients=mine.num_gradients + 1, batch_size=mine.batch_size + given.batch_size
        )
        if self._sum is None:
            self._sum = given.gradients
        else:
            self._sum.storage.add_(given.gradients.storage)
            self._layout.give_back(given.gradients)

    def _next_contribution(self) -> Contribution | None:
        """Wait for a contribution or a skip; return None if the program does not answer in time.

        One that was made for an earlier step, or for a model that has been replaced since, is dropped: it
        does not take our turn, and the program is asked again. But it shows that the program is alive.
        """
        exchange, alone = self._exchange, self._group.size == 1
        deadline = time.monotonic() + (0.0 if self._idle else self._timeout)
        while self._wait(lambda: bool(exchange.inbox), None if alone else deadline - time.monotonic()):
            if self._idle:
                self._idle, deadline = False, time.monotonic() + self._timeout
            with exchange.lock:
                given = exchange.inbox.popleft()
                late = exchange.version - given.version >= exchange.parallel_gradients
                if not late and given.generation == exchange.generation:
                    exchange.busy += 1
                    self._last, self._answered = given, True
                    return given
            if given.gradients:
                self._layout.give_back(given.gradients)
            exchange.notify_program()
        if not self._idle:
            log("error", "%s: no contribution or skip for %g s: counted as a skip", self._name, self._timeout)
        self._idle = True
        return None

    def _our_counts(self) -> torch.Tensor:
        leads = self._leads()
        return self._mine._replace(
            num_idle=float(self._idle),
            virtual_batch_size=self._exchange.virtual_batch_size if leads else 0,
            buffers=float(leads and self._last is not None and self._last.buffers is not None),
        ).tensor()

    def _reduce_counts(self) -> torch.Tensor:
        counts = self._our_counts()
        self._group.all_reduce([counts])
        return counts

    def _reduce(self, divisor: float) -> GradientBuffer:
        """Return the sum of all contributions to this step, their gradients divided by `divisor`.

        A buffer whose reduction fails is not used again.
        """
        buffer = self._layout.take()
        self._group.all_reduce(self._filled(buffer, divisor))
        return buffer

    def _filled(self, buffer: GradientBuffer, divisor: float) -> Iterator[torch.Tensor]:
        """Yield the parts of `buffer` to reduce, each as soon as our contributions are in it.

        Between two members there are two parts: one is added up while the other is sent. More members gain
        nothing from that.
        """
        count = 2 if self._group.size == 2 and len(buffer.storage) >= MIN_SPLIT else 1
        parts = buffer.storage.chunk(count)
        ours = self._sum.storage.chunk(count) if self._sum else None
        for i, part in enumerate(parts):
            if ours:
                torch.mul(ours[i], 1.0 / divisor, out=part)
            else:
                part.zero_()
            if i == count - 1:
                buffer.counts.copy_(self._our_counts())
            yield part

    def _finish_step(self, gradients: GradientBuffer) -> None:
        self._needed = (self._finished, self._needed[0])
        self._finished = 0
        exchange = self._exchange
        self._idle = self._idle and not self._answered  # a program may contribute only once to each step
        with exchange.lock:
            exchange.version += 1
            self.clear_contributions()
            if exchange.lineage:
                exchange.lineage = self._lineage
                exchange.results.append(Result(gradients, Counts.of(gradients.counts)))
            if len(exchange.results) > BACKLOG + exchange.parallel_gradients:
                exchange.results.clear()
                exchange.lineage, exchange.behind = 0, True

    def _compare_checksums(self) -> None:
        """Raise Diverged if our and the leader's checksums of this version are both known and differ."""
        last = self._last
        known = last is not None and last.checksum is not None and last.version == self._exchange.version
        mine = torch.tensor([known, last.checksum if known and last else 0])
        rows = self._group.all_gather(mine).tolist()
        leader = rows[self._leader]
        if known and leader[0] and leader != rows[self._group.rank]:
            raise Diverged(f"parameters of version {self._exchange.version} differ from the leader's")

    def _share_buffers(self) -> None:
        last = self._last
        package = last.buffers if self._leads() and last else None
        package = state_transfer.broadcast(self._group, self._leader, package)
        if self._leads() and last:
            last.buffers = None
        else:
            buffers = state_transfer.unpack(package)
            with self._exchange.lock:
                self._exchange.buffers = buffers

    def _leads(self) -> bool:
        return self._group.rank == self._leader
