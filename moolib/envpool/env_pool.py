"""Environments that worker processes step in batches while the program does other work.

>>> pool = EnvPool(lambda: gymnasium.make("CartPole-v1"), num_processes=2, batch_size=64, num_batches=2)
>>> futures = [pool.step(i, actions[i]) for i in range(2)]  # double buffering: one batch is stepped…
>>> observation = futures[0].result()["state"]              # …while the policy acts on the other

An environment follows Gymnasium (`reset() -> (observation, info)`, five values of `step`) or the older API
(`reset() -> observation`, four values, with `info["TimeLimit.truncated"]`). Observations are arrays, or dicts
and tuples of them. The pool needs sockets that keep packets apart: Linux only.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy as np
import torch

from moolib.envpool.env_memory import ACTION, Field
from moolib.envpool.env_stepper import EnvStepper
from moolib.future import RpcError


class EnvStepperFuture:
    """A batch that is being stepped.

    Attributes:
        taken: `result()` has returned the results.
    """

    def __init__(self, stepper: EnvStepper, batch: int, results: dict[str, torch.Tensor]) -> None:
        self._stepper, self._batch, self._results = stepper, batch, results
        self.taken = False

    def result(self, timeout: float | None = None) -> dict[str, torch.Tensor]:
        """Return the results of the step, waiting for it for at most `timeout` seconds.

        Returns:
            Tensors `[batch_size, …]`, views of shared memory that hold until the next step of this batch:
            `done`, `terminated`, `truncated` (bool), `reward` (float32), the observation (a single array is
            called `state`; members of dicts and tuples have their keys, nested ones joined by "/"), and
            `final_NAME`, the last observation of the episode in the rows that are done (`NAME` is then the
            first observation of the next one).

        Raises:
            RpcError: `The operation timed out`; or an environment raised (with its traceback), hung, or its
            process died.
        """
        self._stepper.wait(self._batch, timeout)
        self.taken = True
        return dict(self._results)

    def wait(self, timeout: float | None = None) -> None:
        """Wait for the step, for at most `timeout` seconds. Errors as `result`."""
        self._stepper.wait(self._batch, timeout)

    def done(self) -> bool:
        """Return True once the step is finished."""
        return not self._stepper.busy(self._batch)


class EnvPool:
    """`num_batches` batches of `batch_size` environments, each spread over `num_processes` processes."""

    def __init__(
        self,
        create_env: Callable[..., Any],
        num_processes: int,
        batch_size: int,
        num_batches: int,
        *,
        timeout: float | None = None,
    ) -> None:
        """Start the processes: fresh interpreters, to which `create_env` is sent pickled.

        Args:
            create_env: Makes one environment; called `batch_size * num_batches` times in all. If it has a
                parameter without a default, it is called with the environment's index: row r of batch b has
                `b * batch_size + r`, whatever the number of processes.
            timeout: Seconds that a step (and making the environments) may take; default: no limit.

        Raises:
            RpcError: A number is not from 1 to 65535, or the system is not supported.
        """
        numbers = {"num_processes": num_processes, "batch_size": batch_size, "num_batches": num_batches}
        for name, number in numbers.items():
            if not 1 <= number <= 65535:
                raise RpcError(f"{name} {number}: 1 to 65535 are allowed")
        self._shape = (num_batches, batch_size)
        self._stepper = EnvStepper(create_env, num_processes, batch_size, num_batches, timeout)
        self._action: Field | None = None  # known from the first step on
        self._last: dict[int, EnvStepperFuture] = {}  # the last step of each batch
        self._actions: list[torch.Tensor] = []
        self._results: list[dict[str, torch.Tensor]] = [{} for _ in range(num_batches)]

    def step(self, batch_index: int, action: Any) -> EnvStepperFuture:
        """Step the environments of a batch. The first step of each batch resets it and ignores the action.

        An environment that is done is reset: its observation is then the first of the next episode, while its
        reward and done are the last of the old one.

        Args:
            action: Tensor or array `[batch_size, …]`: integers for discrete actions and for environments
                without an action space, floats for continuous ones.

        Raises:
            RpcError: There is no such batch, the result of its last step was not taken, or the action has a
                wrong shape or dtype.
        """
        num_batches, batch_size = self._shape
        if not 0 <= batch_index < num_batches:
            raise RpcError(f"batch {batch_index}: 0 to {num_batches - 1} are allowed")
        action = torch.as_tensor(action).detach()
        if action.ndim < 1 or len(action) != batch_size:
            raise RpcError(f"action: shape {list(action.shape)}, but [{batch_size}, …] is needed")
        future = EnvStepperFuture(self._stepper, batch_index, self._results[batch_index])
        if self._action is None and not self._stepper.failure:
            self._begin(action)
        if self._stepper.failure:
            return future
        self._check(action)
        if batch_index in self._last and not self._last[batch_index].taken:
            raise RpcError(f"batch {batch_index} is being stepped: take its result first")
        self._actions[batch_index].copy_(action)
        self._stepper.step(batch_index)
        self._last[batch_index] = future
        return future

    def close(self) -> None:
        """End the processes (as garbage collection and the end of the program do)."""
        self._stepper.close()

    def __enter__(self) -> EnvPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _begin(self, action: torch.Tensor) -> None:
        """Learn the form of observations and actions, and share memory for them.

        Raises:
            RpcError: The environments have no action space, and the actions are not integers.
        """
        try:
            observation, wanted = self._stepper.spec()
        except RpcError:
            return  # the future will raise it
        if wanted is None:
            if action.is_floating_point() or action.is_complex():
                raise RpcError(
                    f"action: dtype {action.dtype}, but environments without an action_space take integers"
                )
            wanted = Field(torch.empty(0, dtype=action.dtype).numpy().dtype.str, tuple(action.shape[1:]))
        self._action = wanted
        for batch, arrays in enumerate(self._stepper.begin(observation, wanted)):
            tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
            self._actions.append(tensors.pop(ACTION))
            self._results[batch].update(tensors)

    def _check(self, action: torch.Tensor) -> None:
        assert self._action is not None
        dtype, shape = np.dtype(self._action.dtype), (self._shape[1], *self._action.shape)
        if tuple(action.shape) != shape:
            raise RpcError(f"action: shape {list(action.shape)}, but the environments take {list(shape)}")
        if action.is_complex() or action.is_floating_point() != (dtype.kind == "f"):
            raise RpcError(f"action: dtype {action.dtype}, but the environments take {dtype}")
