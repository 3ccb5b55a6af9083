"""Data-parallel training with peers that come and go: gradients are accumulated over the members of a group.

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
thread. All slow work happens on a control thread (`moolib.accumulator.control_thread`, which states the
protocol).
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from moolib.accumulator import state_transfer
from moolib.accumulator.control_thread import ControlThread
from moolib.accumulator.exchange import Contribution
from moolib.accumulator.gradient_buffer import Counts, GradientBuffer, GradientLayout, checksum, describe
from moolib.accumulator.rounds import CHECK_INTERVAL
from moolib.future import RpcError, fresh
from moolib.group.group import Group
from moolib.limits import MAX_BATCH_SIZE
from moolib.rpc.rpc import Rpc
from moolib.weak import weak

GIL_PAUSE = 2e-5  # s; lets the control thread run beside programs that call update() without pause
SHARE_INTERVAL = 10.0  # s after which the leader sends its buffers again


class Accumulator:
    """Reduces gradients over the members of a group, and brings the model to new members.

    Args:
        name: The same on all members; distinguishes several accumulators of one group.
        parameters: The model's; frozen ones (`requires_grad` False) are transferred, but have no gradients.
        buffers: The model's, which are transferred.
        group: The group to use. Without one, the accumulator makes an `Rpc` and a `Group` called `name`: call
            `connect`.
        weighted: Weigh each contribution by its batch size, instead of all contributions equally.
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
        self._client = group.client
        self._parameters, self._buffers = list(parameters), list(buffers)
        self._weighted = weighted
        self._layout = GradientLayout(self._parameters)
        self._control = ControlThread(self._client, name, self._layout, weighted)
        self._exchange = self._control.exchange
        self._events = -1  # of the exchange, as of the last update()
        self._connected = False
        self._has_gradients = False
        self._wanted = False  # the program was told, since its last update(), that it may contribute
        self._counts = Counts()
        self._version = 0
        self._generation = 0
        self._shared = time.monotonic()  # when we last sent the buffers, as the leader
        self._new_state: list[Any] = []  # at most one
        description = describe(self._parameters, self._buffers, weighted)
        self._client.add_accumulator(name, description, weak(self._status))
        self._client.subscribe(weak(self._exchange.notify_all))
        self._stop = weakref.finalize(self, self._control.stop)

    def connect(self, address: str) -> None:
        """Connect to the broker at `address`; for accumulators that own their group.

        Raises:
            RuntimeError: The group was given.
        """
        if self._rpc is None:
            raise RpcError("connect: this accumulator uses a group; connect that group's Rpc")
        self._rpc.connect(address)

    def update(self) -> None:
        """Take in recent events: gradients that are ready, a model from the leader. Never wait.

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
        self._control.start()
        self._wanted = False
        with exchange.lock:
            if exchange.error:
                raise fresh(exchange.error)
            self._events = exchange.events
            model, exchange.model = exchange.model, None
            buffers, exchange.buffers = exchange.buffers, None
            take = model is None and not self._has_gradients and exchange.results
            result = exchange.results.popleft() if take else None
            self._version = exchange.version - len(exchange.results)
            self._generation = exchange.generation
            self._connected = self._client.epoch is not None and exchange.lineage != 0
            behind = exchange.behind
        if behind:
            self._control.catch_up()
        if model:
            _load(self._parameters, model.parameters)
            _load(self._buffers, model.buffers)
            self._new_state, self._has_gradients = [model.state], False
        elif buffers:
            _load(self._buffers, buffers)
        if result:
            self._counts, self._has_gradients = result.counts, True
            self._layout.write(result.gradients)

    def wait(self, timeout: float) -> None:
        """Block, without the GIL, until something has happened since the last `update()`.

        Args:
            timeout: Seconds to wait at most.
        """
        exchange = self._exchange
        exchange.program.wait_for(lambda: exchange.events != self._events, timeout)

    def connected(self) -> bool:
        """Return True if we are a member and have the group's model (or lead)."""
        return self._connected

    def is_leader(self) -> bool:
        """Return True if the others adopt our model."""
        return self.get_leader() == self._client.name

    def get_leader(self) -> str:
        """Return the member with the greatest (model version, name) when the epoch began; "" until known."""
        sync_id, leader = self._exchange.leader
        epoch = self._client.epoch
        return leader if epoch and epoch.sync_id == sync_id else ""

    def wants_state(self) -> bool:
        """Return True if a member needs our model: the program should call `set_state` soon."""
        exchange = self._exchange
        current = not self._has_gradients and not exchange.results and exchange.model is None
        return exchange.state_wanted and exchange.package is None and current

    def set_state(self, state: Any) -> None:
        """Send parameters, buffers and `state` to the members that need them.

        Args:
            state: The program's state besides the model; anything an `Rpc` can carry.

        Raises:
            RuntimeError: `wants_state()` is False.
            TypeError: `state` holds something that cannot travel.
        """
        if not self.wants_state():
            raise RpcError("set_state: nobody wants the state; ask wants_state() first")
        package = state_transfer.pack([self._parameters, self._buffers, state])
        with self._exchange.lock:
            self._exchange.package = package
        self._exchange.control.set()

    def has_new_state(self) -> bool:
        """Return True if the leader's model was loaded and `state()` has not been called since."""
        return bool(self._new_state)

    def state(self) -> Any:
        """Return the state that the leader passed to `set_state`; once for each model.

        Raises:
            RuntimeError: `has_new_state()` is False.
        """
        if not self._new_state:
            raise RpcError("state: there is no new state; ask has_new_state() first")
        return self._new_state.pop()

    def wants_gradients(self) -> bool:
        """Return True if the program may contribute or skip before its next `update()`."""
        self._wanted = self._connected and not self._has_gradients and self._exchange.has_room()
        return self._wanted

    def reduce_gradients(
        self, batch_size: int, gradients: Sequence[torch.Tensor | None] | None = None
    ) -> None:
        """Contribute gradients, those of the parameters by default. One that is None counts as zero.

        Args:
            batch_size: The share of this contribution in the virtual batch.
            gradients: One for each parameter that is not frozen, in its shape; copied and left alone, as is
                each parameter's `grad`. Without them, each parameter's `grad` is contributed and zeroed.

        Raises:
            RuntimeError: `wants_gradients()` is False.
            ValueError: `batch_size` is not a number from 1 to 2²⁴, or `gradients` do not fit the parameters.
        """
        self._check_wanted("reduce_gradients")
        if not 1 <= batch_size <= MAX_BATCH_SIZE:
            raise ValueError(f"reduce_gradients: batch_size must be 1 to {MAX_BATCH_SIZE}, not {batch_size}")
        weight = float(batch_size) if self._weighted else 1.0
        if gradients is not None:
            return self._contribute(self._layout.copy(gradients, weight), int(batch_size))
        self._contribute(self._layout.read(weight), int(batch_size))
        self._layout.zero()

    def skip_gradients(self) -> None:
        """Let the others go on without our contribution; leave the gradients alone.

        Raises:
            RuntimeError: `wants_gradients()` is False.
        """
        self._check_wanted("skip_gradients")
        self._contribute(None, 0)

    def has_gradients(self) -> bool:
        """Return True while each parameter's `grad` holds the group's mean, until `zero_gradients()`."""
        return self._has_gradients

    def zero_gradients(self) -> None:
        """Zero the gradients, which the program has used, and go on."""
        self._layout.zero()
        self._has_gradients = False

    def get_gradient_stats(self) -> dict[str, int]:
        """Return the last gradients' `num_gradients`, `num_skipped` (contributions) and `batch_size`."""
        counts = self._counts
        return {
            "num_gradients": int(counts.num_gradients),
            "num_skipped": int(counts.num_skipped),
            "batch_size": int(counts.batch_size),
        }

    def set_virtual_batch_size(self, size: int) -> None:
        """Make a step when the sum of batch sizes reaches `size`. The leader's value decides.

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
        """Return the number of steps, including that of the gradients that `has_gradients()` reports."""
        return self._version

    def set_model_version(self, version: int) -> None:
        """Set the version of a model from elsewhere, such as a checkpoint: the greatest version leads."""
        with self._exchange.lock:
            self._exchange.version += int(version) - self._version
        self._version = int(version)

    def _check_wanted(self, method: str) -> None:
        # A step may have been completed since the program asked, by contributions from before a change of the
        # members. A gradient that arrives after that counts as skipped.
        if not self._wanted and not self.wants_gradients():
            raise RpcError(f"{method}: no gradients are wanted; ask wants_gradients() first")

    def _contribute(self, gradients: GradientBuffer | None, batch_size: int) -> None:
        self._wanted = False
        contribution = Contribution(gradients, batch_size, self._version, self._generation)
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
