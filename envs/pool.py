"""Double buffering: several batches of robots, stepped while the policy acts on another one.

``pool.step(index, actions)`` returns a future at once. On the CPU every batch has a worker thread of its own,
which releases the GIL while the physics runs on C++ threads: one batch is simulated while the policy acts on,
or the terms are computed for, another one. On a device a step is only launched, and the future is fulfilled
already.
"""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic

import numpy as np

from envs.arrays import Array
from envs.config import EnvConfig
from envs.go2.batch import RobotBatch
from envs.go2.mdp.state import State
from envs.go2.mjbatch.batch import Go2Batch
from envs.go2.robot.constants import JOINT_NAMES
from envs.go2.robot.symmetry import mirror
from envs.results import Counters, StepResult


class RobotPool(Generic[Array]):
    """Batches of robots of one task, addressed by their index.

    Attributes:
        config: The task.
        obs_dim, action_dim: Lengths of an observation and of an action.
        control_dt: Seconds per policy step.
        policy_rate: Policy steps per second of simulated time, Hz.
        decimation: Physics steps per policy step.
        observation_terms: (name, dimension, scale) of every observation term, in order.
        reward_names: Names of the reward terms, in the order of ``StepResult.reward_terms``.
        mirror: The left-right mirror image of observations and actions.
        batch_size: Robots per batch.
        num_batches: Number of batches.
        device: Where the robots live as torch tensors; None if results are NumPy arrays.
    """

    _batches: Sequence[RobotBatch[Array]]

    def __init__(self, config: EnvConfig, batches: Sequence[RobotBatch[Array]]):
        """Take batches of one task and one size; ``make_pool`` makes them."""
        first = batches[0]
        self.config, self.device = config, first.device
        self.batch_size, self.num_batches = len(first.result.reward), len(batches)
        self.obs_dim, self.action_dim = first.observer.dim, len(JOINT_NAMES)
        self.control_dt, self.policy_rate = config.control_dt, 1.0 / config.control_dt
        self.decimation = config.physics.decimation
        self.observation_terms = first.observer.terms
        self.reward_names = first.rewarder.names
        self.mirror = mirror(self.observation_terms)
        self._batches = batches
        self._workers = [ThreadPoolExecutor(1, f"envs-{i}") for i in range(len(batches))]
        self._pending: list[Future[StepResult[Array]] | None] = [None] * len(batches)

    def reset(self, index: int) -> Array:
        """Start new episodes in a batch; return their first observations [B, D] float32."""
        return self._idle(index).reset()

    def step(self, index: int, actions: Array) -> "Future[StepResult[Array]]":
        """Start one policy step of a batch.

        Args:
            index: Index of the batch.
            actions: Actions [B, 12] float32; copied at once. On a device, a robot whose actions are not
                finite diverges.

        Returns:
            A future of the result, whose arrays are valid until the next step of this batch. On a device they
            are ready for everything launched afterwards on torch's default stream; reading them on the host
            waits.

        Raises:
            RuntimeError: If a step of this batch is in flight.
            ValueError: If the actions have another shape or type, or (on the CPU) are not finite.
        """
        batch = self._idle(index)
        check_actions(actions, batch.actions)
        batch.set_actions(actions)
        future: Future[StepResult[Array]]
        if batch.asynchronous:
            future = Future()
            future.set_result(batch.advance())
        else:
            future = self._workers[index].submit(batch.advance)
        self._pending[index] = future
        return future

    def set_commands(self, index: int, commands: np.ndarray | None) -> Array:
        """Hold a batch's commands (see ``RobotBatch.set_commands``); return its observations with them."""
        return self._idle(index).set_commands(commands)

    def state(self, index: int) -> State[Array]:
        """Return the live state of a batch at rest: positions, velocities, feet, forces, commands."""
        return self._idle(index).state

    @property
    def counters(self) -> Counters:
        """Totals so far, summed over the batches; a snapshot."""
        return sum((batch.counters for batch in self._batches), Counters())

    def state_dict(self, index: int) -> dict[str, np.ndarray]:
        """Return everything that the future of a batch depends on; loading it continues bit for bit."""
        return self._idle(index).state_dict()

    def load_state_dict(self, index: int, saved: dict[str, np.ndarray]) -> None:
        """Continue from a batch's ``state_dict``.

        Raises:
            ValueError: If it was saved by a different task or batch size.
        """
        self._idle(index).load_state_dict(saved)

    def close(self) -> None:
        """Wait for steps in flight and end the workers."""
        for worker in self._workers:
            worker.shutdown()

    def _idle(self, index: int) -> RobotBatch[Array]:
        pending = self._pending[index]
        if pending is not None and not pending.done():
            raise RuntimeError(f"batch {index}: a step is in flight; wait for its future first")
        return self._batches[index]


def check_actions(actions: Any, like: Array) -> None:
    """Check actions before a step.

    Args:
        actions: The actions.
        like: An array of the same kind, shape and type as they must have.

    Raises:
        ValueError: If they are different, or a NumPy array whose numbers are not all finite; one line.
    """
    shape, dtype = tuple(np.shape(actions)), getattr(actions, "dtype", None)
    if not isinstance(actions, type(like)) or (shape, dtype) != (tuple(like.shape), like.dtype):
        given = f"{type(actions).__name__ if dtype is None else dtype}{list(shape)}"
        kind = "NumPy array" if isinstance(like, np.ndarray) else "torch tensor"
        raise ValueError(f"actions={given}: must be a {kind} float32{list(like.shape)}")
    if isinstance(actions, np.ndarray) and not np.isfinite(actions).all():
        raise ValueError("actions: must be finite")


def make_pool(
    config: EnvConfig, batch_size: int, num_batches: int, seed: int, num_threads: int = 0
) -> RobotPool[Any]:
    """Make and reset the robots of a task on its backend.

    Args:
        config: The task.
        batch_size: Robots per batch.
        num_batches: Number of batches.
        seed: Batch i draws everything random from (seed, i).
        num_threads: Physics threads per batch on the CPU, 0 for one per logical CPU; results do not depend on
            it.

    Raises:
        ValueError: If a number is out of range, the task is inconsistent or the backend is not installed.
    """
    sizes = (("batch_size", batch_size, 1), ("num_batches", num_batches, 1), ("seed", seed, 0))
    for key, value, low in sizes:
        if value < low:
            raise ValueError(f"{key}={value}: must be >= {low}")
    seeds = [(seed, i) for i in range(num_batches)]
    if config.backend == "mjbatch":
        return RobotPool(config, [Go2Batch(config, batch_size, each, num_threads) for each in seeds])
    try:
        import torch

        from envs.go2.warp.batch import WarpBatch
    except ImportError as missing:
        needed = "mjbatch, or have MuJoCo Warp installed: pip install 'herd[gpu]'"
        raise ValueError(f"env.backend='warp': must be {needed} ({missing})") from None
    device = torch.empty(0, device=config.device or "cpu").device  # with an index, if it is a GPU
    return RobotPool(config, [WarpBatch(config, batch_size, each, device) for each in seeds])
