"""Acting: the policy drives one actor batch of robots while the others are being stepped."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import numpy as np
import torch

from agent.algorithms.objective import log_prob_of_noise
from agent.algorithms.rollout import Rollout
from agent.config import Config
from agent.logs.timer import Timer
from agent.models.policy import Memory, Policy
from agent.training.device_sums import DeviceSums
from agent.training.gradient_worker import Lessons
from agent.training.learner import Learner, TrainingError
from agent.training.statistics import GroupSums
from envs import EnvPool, StepResult

NOT_FINITE = "the policy's actions are not finite"


class Actors:
    """The robots of this peer and the rollout that they fill.

    `collect()` interleaves the actor batches: batch 0 is sent off with its actions, and while C++ threads
    step it, the policy acts for batch 1, and so on. An actor batch occupies the columns `i * B_a : (i + 1)
    * B_a` of the rollout.
    """

    # Of robots that live on a device: what nobody waits for before the end of a rollout.
    device_sums: DeviceSums | None = None
    finite: torch.Tensor | None = None  # [] bool, whether all actions were

    def __init__(
        self,
        config: Config,
        pool: EnvPool,
        policy: Policy,
        sums: GroupSums,
        clock: Timer,
        generator: torch.Generator,
    ) -> None:
        self.config, self.pool, self.policy, self.sums, self.clock = config, pool, policy, sums, clock
        self.generator = generator
        device = torch.device(config.device)
        if pool.device is not None:
            self.device_sums = DeviceSums(sums, len(pool.reward_names), torch.device(pool.device))
            self.finite = torch.ones((), dtype=torch.bool, device=device)
        self.rollout, self._other = (
            Rollout.allocate(config.unroll_length, config.sequences, pool.obs_dim, pool.action_dim, device)
            for _ in range(2)
        )
        size = config.actor_batch_size
        self.batches = [slice(i * size, (i + 1) * size) for i in range(config.num_actor_batches)]
        self.memories: list[Memory] = [policy.initial_memory(size) for _ in self.batches]
        self.futures: list[Future[StepResult] | None] = [None] * len(self.batches)
        for i, rows in enumerate(self.batches):
            self.rollout.obs[-1, rows] = torch.as_tensor(pool.reset(i))
        self.rollout.start[-1] = True

    def collect(self, learner: Learner, lessons: Lessons) -> Rollout:
        """Steps every robot `unroll_length` times, with lessons in between.

        Returns:
            The transitions, valid until the call after the next.
        """
        before, self.rollout, self._other = self.rollout, self._other, self.rollout
        rollout, steps = self.rollout, self.config.unroll_length
        rollout.obs[0], rollout.start[0] = before.obs[-1], before.start[-1]
        rollout.memory = tuple(torch.cat(parts) for parts in zip(*self.memories, strict=True))
        for t in range(steps + 1):
            if t < steps:
                rollout.version[t] = learner.accumulator.model_version()
            for i in range(len(self.batches)):
                if t > 0:
                    self._receive(i, t)
                if t < steps:
                    with self.clock("acting"):
                        self._act(i, t)
                learner.poll_while_acting()
            if t < steps:
                lessons.keep_up((t + 1) / steps)
        with torch.no_grad():
            self._add_moments(learner)
        if self.device_sums:
            self.device_sums.flush()
        if self.finite is not None and not self.finite:
            raise TrainingError(NOT_FINITE)
        return rollout

    @torch.no_grad()
    def _act(self, i: int, t: int) -> None:
        """Chooses the actions of batch `i` at step `t` and starts its physics.

        Raises:
            TrainingError: the model has blown up.
        """
        rows, rollout = self.batches[i], self.rollout
        mean, self.memories[i] = self.policy.act(
            rollout.obs[t, rows], rollout.start[t, rows], self.memories[i]
        )
        noise = torch.randn(mean.shape, generator=self.generator, device=mean.device)
        action = mean + noise * self.policy.log_std.exp()
        finite = torch.isfinite(action).all()
        if self.finite is not None:  # looked at when the rollout is over: no waiting for the device here
            self.finite &= finite
        elif not finite:
            raise TrainingError(NOT_FINITE)
        rollout.action[t, rows] = action
        rollout.log_prob[t, rows] = log_prob_of_noise(noise, self.policy.log_std)
        on_device = self.pool.device is not None
        self.futures[i] = self.pool.step(i, action if on_device else action.cpu().numpy())

    def _receive(self, i: int, t: int) -> None:
        """Waits for batch `i` and stores what its step `t - 1` led to."""
        future, rows, rollout = self.futures[i], self.batches[i], self.rollout
        assert future is not None
        with self.clock("waiting"):
            result = future.result()
        self.futures[i] = None
        with self.clock("acting"):
            rollout.obs[t, rows] = torch.as_tensor(result.obs)
            rollout.start[t, rows] = torch.as_tensor(result.terminated | result.truncated)
            rollout.reward[t - 1, rows] = torch.as_tensor(result.reward)
            rollout.terminated[t - 1, rows] = torch.as_tensor(result.terminated)
            rollout.truncated[t - 1, rows] = torch.as_tensor(result.truncated)
            if self.device_sums or result.truncated.any():  # on a device, to copy is quicker than to look
                rollout.final_obs[t - 1, rows] = torch.as_tensor(result.final_obs)
            if self.device_sums:
                self.device_sums.add(result)
            else:
                self._add_statistics(result)

    def _add_statistics(self, result: StepResult) -> None:
        """Adds what the group logs of one step of one actor batch."""
        done = result.terminated | result.truncated
        add = self.sums.add
        add("steps", len(done))
        add("reward_terms", result.reward_terms * len(done))
        add("lin_vel_error", float(result.lin_vel_error.sum()))
        add("yaw_rate_error", float(result.yaw_rate_error.sum()))
        if done.any():
            add("episodes", int(done.sum()))
            add("falls", int((result.terminated & ~result.bad).sum()))
            add("timeouts", int(result.truncated.sum()))
            add("blowups", int(result.bad.sum()))
            add("episode_return", float(result.episode_return[done].sum()))
            add("episode_length", float(result.episode_length[done].sum()))

    def _add_moments(self, learner: Learner) -> None:
        self.sums.add("obs_moments", self.policy.normalizer.moments(self.rollout.obs[:-1]).cpu().numpy())
        lag = learner.accumulator.model_version() - self.rollout.version.double().mean()
        self.sums.add("policy_lag", float(lag) * self.config.sequences)

    # ------------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Everything that `collect` depends on, between two rollouts."""
        return {
            "envs": [self.pool.state_dict(i) for i in range(len(self.batches))],
            "rollout": self.rollout.state_dict(),
            "memories": [list(memory) for memory in self.memories],
            "generator": self.generator.get_state(),
            "sums": self.sums.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for i, env_state in enumerate(state["envs"]):
            self.pool.load_state_dict(i, {k: np.asarray(v) for k, v in env_state.items()})
        self.rollout.load_state_dict(state["rollout"])
        device = self.rollout.obs.device
        self.memories = [tuple(part.to(device) for part in memory) for memory in state["memories"]]
        self.generator.set_state(state["generator"])
        self.sums.load_state_dict(state["sums"])
