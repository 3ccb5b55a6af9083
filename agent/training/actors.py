"""Acting: the policy drives one actor batch of robots while the others are being stepped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import numpy as np
import torch

from agent.algorithms.rollout import Rollout
from agent.errors import TrainingError
from agent.logs.timer import Timer
from agent.models.gaussian import log_prob_of_noise
from agent.models.policy import Hidden, Policy
from agent.training.statistics import DeviceStatistics, GroupStatistics
from envs import RobotPool, StepResult


class Actors:
    """The robots of this peer and the rollout that they fill.

    `collect()` interleaves the actor batches: it sends batch 0 off with its actions, and while C++ threads
    step it, the policy acts for batch 1, and so on. Actor batch `i` of size `B_a` occupies the columns
    `i * B_a : (i + 1) * B_a` of the rollout.

    Attributes:
        batches: The columns of each actor batch in the rollout.
        rollout: The last one collected, valid until the call of `collect` after the next.
    """

    def __init__(
        self,
        pool: RobotPool,
        policy: Policy,
        statistics: GroupStatistics,
        unroll_length: int,
        generator: torch.Generator | None,
        timer: Timer,
        device: str = "cpu",
    ) -> None:
        """Reset the robots.

        Args:
            pool: The robots, in actor batches of equal size.
            policy: Chooses the actions.
            statistics: Receives what the group logs of each step.
            unroll_length: Policy steps of a rollout.
            generator: Draws the noise of the actions.
            timer: Counts the time spent acting and waiting for robots.
            device: Where policy and rollout live.
        """
        self.pool, self.policy, self.unroll_length = pool, policy, unroll_length
        self.group_statistics, self.timer, self.generator = statistics, timer, generator
        self.statistics: GroupStatistics | DeviceStatistics = statistics
        self._on_device = pool.device is not None
        if pool.device is not None:
            self.statistics = DeviceStatistics(statistics, len(pool.reward_names), torch.device(pool.device))
        self._finite = torch.ones((), dtype=torch.bool, device=device)  # whether all actions were
        size, robots = pool.batch_size, pool.batch_size * pool.num_batches
        self.rollout, self._spare = (
            Rollout.allocate(unroll_length, robots, pool.obs_dim, pool.action_dim, torch.device(device))
            for _ in range(2)
        )
        self.batches = [slice(i * size, (i + 1) * size) for i in range(pool.num_batches)]
        self._hidden: list[Hidden] = [policy.initial_hidden(size) for _ in self.batches]
        self._futures: list[Future[StepResult] | None] = [None] * len(self.batches)
        for i, robots_of_batch in enumerate(self.batches):
            self.rollout.obs[-1, robots_of_batch] = torch.as_tensor(pool.reset(i))
        self.rollout.is_first[-1] = True

    def collect(self, model_version: Callable[[], int]) -> Iterator[float]:
        """Step every robot `unroll_length` times into `rollout`; yield after each actor batch.

        Args:
            model_version: Returns the version of the model that acts.

        Yields:
            The share of the rollout's steps that all actor batches have begun, 0 to 1.

        Raises:
            TrainingError: An action is not finite.
        """
        before, self.rollout, self._spare = self.rollout, self._spare, self.rollout
        rollout, steps, last = self.rollout, self.unroll_length, len(self.batches) - 1
        rollout.obs[0], rollout.is_first[0] = before.obs[-1], before.is_first[-1]
        rollout.hidden = tuple(torch.cat(parts) for parts in zip(*self._hidden, strict=True))
        for t in range(steps + 1):
            if t < steps:
                rollout.version[t] = model_version()
            for i in range(len(self.batches)):
                if t > 0:
                    self._receive(i, t)
                if t < steps:
                    with self.timer("acting"):
                        self._act(i, t)
                yield min((t + (i == last)) / steps, 1.0)
        self._finish(model_version())

    @torch.no_grad()
    def _act(self, i: int, t: int) -> None:
        """Choose the actions of batch `i` at step `t` and start its physics."""
        robots, rollout = self.batches[i], self.rollout
        mean, self._hidden[i] = self.policy.act(
            rollout.obs[t, robots], rollout.is_first[t, robots], self._hidden[i]
        )
        noise = torch.randn(mean.shape, generator=self.generator, device=mean.device)
        action = mean + noise * self.policy.log_std.exp()
        finite = torch.isfinite(action).all()
        if self._on_device:  # read when the rollout is over: no waiting for the device here
            self._finite &= finite
        else:
            _require_finite(finite)
        rollout.action[t, robots] = action
        rollout.log_prob[t, robots] = log_prob_of_noise(noise, self.policy.log_std)
        self._futures[i] = self.pool.step(i, action if self._on_device else action.cpu().numpy())

    def _receive(self, i: int, t: int) -> None:
        """Wait for batch `i` and store the outcome of its step `t - 1`."""
        future, robots, rollout = self._futures[i], self.batches[i], self.rollout
        assert future is not None
        with self.timer("waiting"):
            result = future.result()
        self._futures[i] = None
        with self.timer("acting"):
            rollout.obs[t, robots] = torch.as_tensor(result.obs)
            rollout.is_first[t, robots] = torch.as_tensor(result.terminated | result.truncated)
            rollout.reward[t - 1, robots] = torch.as_tensor(result.reward)
            rollout.terminated[t - 1, robots] = torch.as_tensor(result.terminated)
            rollout.truncated[t - 1, robots] = torch.as_tensor(result.truncated)
            if self._on_device or result.truncated.any():  # on a device, copying is quicker than looking
                rollout.final_obs[t - 1, robots] = torch.as_tensor(result.final_obs)
            self.statistics.add_step(result)

    @torch.no_grad()
    def _finish(self, model_version: int) -> None:
        """Complete the statistics of a rollout."""
        pending = self.group_statistics.pending
        pending.obs_moments += self.policy.normalizer.moments(self.rollout.obs[:-1]).cpu().numpy()
        lag = model_version - self.rollout.version.double().mean()
        pending.policy_lag += float(lag) * self.rollout.reward.shape[1]
        self.statistics.flush()
        _require_finite(self._finite)

    # ------------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Return everything that `collect` depends on, between two rollouts."""
        assert self.generator is not None
        return {
            "envs": [self.pool.state_dict(i) for i in range(len(self.batches))],
            "rollout": self.rollout.state_dict(),
            "memories": [list(hidden) for hidden in self._hidden],
            "generator": self.generator.get_state(),
            "sums": self.group_statistics.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a `state_dict()`."""
        assert self.generator is not None
        for i, env_state in enumerate(state["envs"]):
            self.pool.load_state_dict(i, {k: np.asarray(v) for k, v in env_state.items()})
        self.rollout.load_state_dict(state["rollout"])
        device = self.rollout.obs.device
        self._hidden = [tuple(part.to(device) for part in hidden) for hidden in state["memories"]]
        self.generator.set_state(state["generator"])
        self.group_statistics.load_state_dict(state["sums"])


def _require_finite(finite: torch.Tensor) -> None:
    if not finite:
        raise TrainingError("the policy's actions are not finite")
