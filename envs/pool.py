"""Double buffering: several batches of robots, each stepped by its own worker thread.

``pool.step(index, actions)`` returns a future at once. The worker releases the GIL while the physics runs on
C++ threads, so that the policy acts on one batch, and its terms are computed, while another batch is stepped.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from envs.config import EnvConfig
from envs.go2.arrays import Array
from envs.go2.batch import Go2Batch
from envs.go2.model import JOINT_NAMES
from envs.go2.state import State
from envs.go2.symmetry import mirror
from envs.results import Counters, StepResult


class EnvPool:
    """``num_batches`` batches of ``batch_size`` robots of one task.

    Attributes:
        config: The task.
        obs_dim, action_dim: Lengths of an observation and of an action.
        control_dt: Seconds per policy step.
        policy_rate: Policy steps per second of simulated time, Hz.
        decimation: Physics steps per policy step.
        observation_terms: (name, dimension, scale) of every observation term, in order.
        reward_names: Names of the reward terms, in the order of ``StepResult.reward_terms``.
        mirror: How observations and actions look in a mirror.
        batch_size: Robots per batch.
        num_batches: Batches.
        device: Where the robots live as torch tensors; None if results are NumPy arrays.
    """

    def __init__(self, config: EnvConfig, batch_size: int, num_batches: int, seed: int, num_threads: int = 0):
        """Makes and resets the robots.

        Args:
            config: The task.
            batch_size: Robots per batch.
            num_batches: Batches.
            seed: Batch i draws everything random from (seed, i).
            num_threads: Physics threads per batch, 0 for one per logical CPU; results do not depend on it.

        Raises:
            ValueError: If a number is out of range or the task is inconsistent.
        """
        for key, value, low in (
            ("batch_size", batch_size, 1),
            ("num_batches", num_batches, 1),
            ("seed", seed, 0),
        ):
            if value < low:
                raise ValueError(f"{key}={value}: must be >= {low}")
        self.config, self.batch_size, self.num_batches = config, batch_size, num_batches
        self.device: str | None = None
        self._batches = [
            self._make_batch(config, batch_size, (seed, i), num_threads) for i in range(num_batches)
        ]
        self._workers = [ThreadPoolExecutor(1, f"envs-{i}") for i in range(num_batches)]
        self._pending: list[Future[StepResult] | None] = [None] * num_batches
        self._actions = [np.zeros((batch_size, len(JOINT_NAMES)), np.float32) for _ in range(num_batches)]
        first = self._batches[0]
        self.obs_dim, self.action_dim = first.observer.dim, len(JOINT_NAMES)
        self.control_dt, self.policy_rate = config.control_dt, 1.0 / config.control_dt
        self.decimation = config.physics.decimation
        self.observation_terms = first.observer.terms
        self.reward_names = first.rewarder.names
        self.mirror = mirror(self.observation_terms)

    def _make_batch(self, config: EnvConfig, n: int, seed: tuple[int, int], num_threads: int) -> Any:
        return Go2Batch(config, n, seed, num_threads)

    def reset(self, index: int) -> Array:
        """Starts new episodes in a batch; returns their first observations [B, D] float32."""
        return self._idle(index).reset()

    def step(self, index: int, actions: Array) -> "Future[StepResult]":
        """Starts one policy step of a batch.

        Args:
            index: Which batch.
            actions: Actions [B, 12] float32; copied at once.

        Returns:
            A future of the result, whose arrays are valid until the next step of this batch.

        Raises:
            RuntimeError: If a step of this batch is in flight.
            ValueError: If the actions have another shape or type, or are not finite.
        """
        batch, buffer = self._idle(index), self._actions[index]
        if not isinstance(actions, np.ndarray) or (actions.shape, actions.dtype) != (
            buffer.shape,
            buffer.dtype,
        ):
            given = f"{getattr(actions, 'dtype', type(actions).__name__)}{list(np.shape(actions))}"
            raise ValueError(f"actions={given}: must be a NumPy array float32{list(buffer.shape)}")
        if not np.isfinite(actions).all():
            raise ValueError("actions: must be finite")
        buffer[...] = actions
        future = self._workers[index].submit(batch.step, buffer)
        self._pending[index] = future
        return future

    def set_commands(self, index: int, commands: np.ndarray | None) -> Array:
        """Holds a batch's commands (see ``Go2Batch.set_commands``); returns its observations with them."""
        return self._idle(index).set_commands(commands)

    def state(self, index: int) -> State:
        """The live state of a batch at rest: positions, velocities, feet, forces, commands."""
        return self._idle(index).state

    @property
    def counters(self) -> Counters:
        """What has been simulated so far, summed over the batches; a snapshot."""
        return sum((batch.counters for batch in self._batches), Counters())

    def state_dict(self, index: int) -> dict[str, np.ndarray]:
        """Everything that the future of a batch depends on; loading it continues bit for bit."""
        return self._idle(index).state_dict()

    def load_state_dict(self, index: int, saved: dict[str, np.ndarray]) -> None:
        """Takes over what ``state_dict`` gave.

        Raises:
            ValueError: If it was saved by a different task or batch size.
        """
        self._idle(index).load_state_dict(saved)

    def close(self) -> None:
        """Waits for steps in flight and ends the workers."""
        for worker in self._workers:
            worker.shutdown()

    def _idle(self, index: int) -> Any:
        pending = self._pending[index]
        if pending is not None and not pending.done():
            raise RuntimeError(f"batch {index}: a step is in flight; wait for its future first")
        return self._batches[index]


def make_pool(
    config: EnvConfig, batch_size: int, num_batches: int, seed: int, num_threads: int = 0
) -> EnvPool:
    """Makes an ``EnvPool`` of the task's backend; see there.

    Raises:
        ValueError: If the backend is not installed; one line.
    """
    if config.backend == "mjbatch":
        return EnvPool(config, batch_size, num_batches, seed, num_threads)
    try:
        from envs.warp.pool import WarpPool  # needs torch and MuJoCo Warp, which the other backend does not
    except ImportError as missing:
        needed = "mjbatch, or have MuJoCo Warp installed: pip install 'herd[gpu]'"
        raise ValueError(f"env.backend='warp': must be {needed} ({missing})") from None
    return WarpPool(config, batch_size, num_batches, seed)
