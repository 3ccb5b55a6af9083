"""Data-parallel training with peers that come and go: gradients are accumulated over all members of a group.

>>> accumulator = Accumulator("model", model.parameters(), model.buffers())
>>> accumulator.connect("127.0.0.1:4431")
>>> while training:
...     accumulator.update()
...     if accumulator.wants_state():
...         accumulator.set_state({"optimizer": optimizer.state_dict()})
...     if accumulator.has_new_state():
...         optimizer.load_state_dict(accumulator.state()["optimizer"])
...     if accumulator.has_gradients():
...         optimizer.step()
...         accumulator.zero_gradients()
...     elif accumulator.wants_gradients():
...         loss().backward()
...         accumulator.reduce_gradients(batch_size)

The program owns the model: parameters, buffers and gradients change only inside its own calls, on its own
thread. What takes time happens on a control thread beside it (`moolib.accumulator.control_thread`, which states the protocol).
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterable
from typing import Any

import torch

from moolib.accumulator import state_transfer
from moolib.accumulator.control_thread import Reducer
from moolib.accumulator.exchange import Contribution
from moolib.accumulator.gradient_buffer import Counts, Flat, Layout, checksum, describe
from moolib.accumulator.rounds import CHECK_INTERVAL
from moolib.future import RpcError
from moolib.group.group import Group
from moolib.rpc.rpc import Rpc
from moolib.weak import weak

GIL_PAUSE = 2e-5  # seconds; lets the control thread run beside programs that call update() without pause
SHARE_INTERVAL = 10.0  # seconds after which the leader sends its buffers again
MAX_BATCH_SIZE = 1 << 24  # sums of batch sizes travel in float32, which is exact up to here


class Accumulator:
    """Reduces gradients over the members of a group, and brings the model to those that join.

    Args:
        name: The same for all members; tells several accumulators of one group apart.
        parameters: The model's; frozen ones (`requires_grad` False) are handed over, but have no gradients.
        buffers: The model's; handed over.
        group: The group to use. Without one, an own `Rpc` and a `Group` called `name` are made: `connect`.
        weighted: Weigh each contribution by its batch size, instead of each contribution equally.
    """

    def __init__(
        self,
        name: str,
        parameters: Iterable[torch.Tensor],
        buffers: Iterable[torch.Tensor] = (),
        group: Group | None = None,
        *,
        weighted: bool = False,
    ) -> None:
        self._rpc: Rpc | None = None  # if it is ours
        if group is None:
            self._rpc = Rpc()
            group = Group(self._rpc, name)
        self._group = group
        self._parameters, self._buffers = list(parameters), list(buffers)
        self._weighted = weighted
        self._layout = Layout(self._parameters)
        self._reducer = Reducer(self._group, name, self._layout, weighted)
        self._exchange = self._reducer.exchange
        self._events = -1  # of the exchange, as of the last update()
        self._connected = False
        self._has_gradients = False
        self._wanted = False  # a contribution, as the program was told since its last update()
        self._counts = Counts()
        self._version = 0
        self._generation = 0
        self._shared = time.monotonic()  # when we last sent the buffers, as the leader
        self._new_state: list[Any] = []  # at most one
        description = describe(self._parameters, self._buffers, weighted)
        self._group._identify(name, description, weak(self._status))
        self._group._subscribe(weak(self._exchange.tell_all))
        self._stop = weakref.finalize(self, self._reducer.stop)

    def connect(self, address: str) -> None:
        """Connect to the broker at `address`; for accumulators that own their group.

        Raises:
            RuntimeError: The group was given.
        """
        if self._rpc is None:
            raise RpcError("connect: this accumulator uses a group; connect that group's Rpc")
        self._rpc.connect(address)

    def update(self) -> None:
        """Take in what has happened: gradients that are ready, a model from the leader. Never waits.

        Raises:
            RuntimeError: The group has refused us, because our model differs from its members'.
        """
        if self._rpc is not None:
            self._group.update()
        exchange = self._exchange
        if self._events == exchange.events:
            if exchange.inbox or exchange.busy:
                time.sleep(GIL_PAUSE)
            return
        if not self._reducer.started():
            self._reducer.start()
        self._wanted = False
        with exchange.lock:
            if exchange.error:
                raise exchange.error
            self._events = exchange.events
            model, exchange.model = exchange.model, None
            buffers, exchange.buffers = exchange.buffers, None
            take = model is None and not self._has_gradients and exchange.results
            result = exchange.results.popleft() if take else None
            self._version = exchange.version - len(exchange.results)
            self._generation = exchange.generation
            self._connected = self._group._epoch is not None and exchange.lineage != 0
            behind = exchange.behind
        if behind:
            self._reducer.catch_up()
        if model:
            _load(self._parameters, model.parameters)
            _load(self._buffers, model.buffers)
            self._new_state, self._has_gradients = [model.state], False
        elif buffers:
            _load(self._buffers, buffers)
        if result:
            self._counts, self._has_gradients = result.counts, True
            self._layout.write(result.flat)

    def wait(self, timeout: float) -> None:
        """Block, without the GIL, until something happened since the last `update()`, at most `timeout` s."""
        exchange = self._exchange
        exchange.program.wait_for(lambda: exchange.events != self._events, timeout)

    def connected(self) -> bool:
        """Whether we are a member and have the group's model (or lead)."""
        return self._connected

    def is_leader(self) -> bool:
        """Whether the others take their model from us."""
        return self.get_leader() == self._group._rpc.get_name()

    def get_leader(self) -> str:
        """The member with the greatest (model version, name) when the epoch began; "" until that is known."""
        sync_id, leader = self._exchange.leader
        epoch = self._group._epoch
        return leader if epoch and epoch.sync_id == sync_id else ""

    def wants_state(self) -> bool:
        """Whether a member needs the model from us, so that the program should call `set_state` soon."""
        exchange = self._exchange
        current = not self._has_gradients and not exchange.results and exchange.model is None
        return exchange.state_wanted and exchange.package is None and current

    def set_state(self, state: Any) -> None:
        """Send parameters, buffers and `state` to those who need them.

        Args:
            state: Whatever the program needs besides the model; anything an `Rpc` can carry.

        Raises:
            RuntimeError: `wants_state()` is False.
            TypeError: `state` holds something that cannot travel.
        """
        if not self.wants_state():
            raise RpcError("set_state: nobody wants the state; ask wants_state() first")
        package = state_transfer.pack([self._parameters, self._buffers, state])
        with self._exchange.lock:
            self._exchange.package = package
        self._exchange.control.ring()

    def has_new_state(self) -> bool:
        """Whether the leader's model was loaded and `state()` not yet asked for."""
        return bool(self._new_state)

    def state(self) -> Any:
        """What the leader gave to `set_state`; once for each model.

        Raises:
            RuntimeError: `has_new_state()` is False.
        """
        if not self._new_state:
            raise RpcError("state: there is no new state; ask has_new_state() first")
        return self._new_state.pop()

    def wants_gradients(self) -> bool:
        """Whether the program may call `reduce_gradients` or `skip_gradients`, before its next `update()`."""
        self._wanted = self._connected and not self._has_gradients and self._exchange.room()
        return self._wanted

    def reduce_gradients(self, batch_size: int) -> None:
        """Contribute the parameters' gradients, which are copied and zeroed. One that is None counts as zero.

        Args:
            batch_size: How much this contribution adds to the virtual batch.

        Raises:
            RuntimeError: `wants_gradients()` is False.
            ValueError: `batch_size` is not a number from 1 to 2²⁴.
        """
        self._check_wanted("reduce_gradients")
        if not 1 <= batch_size <= MAX_BATCH_SIZE:
            raise ValueError(f"reduce_gradients: batch_size must be 1 to {MAX_BATCH_SIZE}, not {batch_size}")
        flat = self._layout.read(float(batch_size) if self._weighted else 1.0)
        self._contribute(flat, int(batch_size))
        self._layout.zero()

    def skip_gradients(self) -> None:
        """Let the others go on without a contribution of ours; the gradients are left alone.

        Raises:
            RuntimeError: `wants_gradients()` is False.
        """
        self._check_wanted("skip_gradients")
        self._contribute(None, 0)

    def has_gradients(self) -> bool:
        """Whether the parameters' `grad` hold the group's mean, until `zero_gradients()`."""
        return self._has_gradients

    def zero_gradients(self) -> None:
        """The program has used the gradients: zero them and go on."""
        self._layout.zero()
        self._has_gradients = False

    def get_gradient_stats(self) -> dict[str, int]:
        """Of the last gradients: `num_gradients`, `num_skipped` (contributions) and `batch_size`."""
        counts = self._counts
        return {
            "num_gradients": int(counts.num_gradients),
            "num_skipped": int(counts.num_skipped),
            "batch_size": int(counts.batch_size),
        }

    def set_virtual_batch_size(self, size: int) -> None:
        """Reduce when the sum of batch sizes reaches `size`. The leader's decides.

        Raises:
            ValueError: `size` is not a number from 1 to 2²⁴.
        """
        if not 1 <= size <= MAX_BATCH_SIZE:
            raise ValueError(f"virtual batch size must be 1 to {MAX_BATCH_SIZE}, not {size}")
        self._exchange.virtual_batch_size = int(size)

    def set_parallel_gradients(self, count: int) -> None:
        """Let the program contribute to `count` steps at once, with gradients up to `count - 1` steps old.

        Raises:
            ValueError: `count` is less than 1.
        """
        if count < 1:
            raise ValueError(f"parallel gradients must be at least 1, not {count}")
        self._exchange.parallel_gradients = int(count)

    def model_version(self) -> int:
        """How many steps the model has made; the gradients that `has_gradients()` shows are counted."""
        return self._version

    def set_model_version(self, version: int) -> None:
        """Say so of a model that comes from elsewhere, such as a checkpoint: the greatest version leads."""
        with self._exchange.lock:
            self._exchange.version += int(version) - self._version
        self._version = int(version)

    def _check_wanted(self, what: str) -> None:
        # A step may have been completed meanwhile, by what was contributed before the members changed. A
        # gradient that comes then counts as skipped.
        if not self._wanted and not self.wants_gradients():
            raise RpcError(f"{what}: no gradients are wanted; ask wants_gradients() first")

    def _contribute(self, flat: Flat | None, batch_size: int) -> None:
        self._wanted = False
        contribution = Contribution(flat, batch_size, self._version, self._generation)
        if self._version % CHECK_INTERVAL == 0:
            contribution.checksum = checksum(self._parameters)
        if self._buffers and self.is_leader() and time.monotonic() - self._shared > SHARE_INTERVAL:
            self._shared = time.monotonic()
            contribution.buffers = state_transfer.pack(self._buffers)
        self._exchange.put(contribution)

    def _status(self) -> dict[str, Any]:
        return {"model_version": self._version, "leader": self.is_leader()}


def _load(tensors: list[torch.Tensor], new: list[torch.Tensor]) -> None:
    with torch.no_grad():
        for mine, other in zip(tensors, new, strict=True):
            mine.copy_(other)
