"""Rows of logs.tsv, from the group's updates, the model of the run and this peer's own timer."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import Any

from torch import Tensor

from agent.config import Config, ScenarioConfig
from agent.logs.run_model import ParallelSimRunScenario, from_settings, units
from agent.logs.timer import Timer
from agent.training.learner import Learner, Update
from agent.training.statistics import Statistics, ratio
from envs import RobotPool

NAN = float("nan")


class MetricsRow:
    """Sum up the time since the last row in the next one; `agent.logs.columns` explains the columns."""

    def __init__(self, config: Config, pool: RobotPool, learner: Learner, timer: Timer) -> None:
        self.config, self.pool, self.learner, self.timer = config, pool, learner, timer
        self.policy_rate = units.Quantity(pool.policy_rate, "Hz")
        self.start_interval()

    def start_interval(self) -> None:
        """Let the next row begin now."""
        self._since = time.perf_counter()
        self._step_before = self.learner.progress.step
        self._counters_before = self.pool.counters

    @property
    def age(self) -> float:
        """Seconds since the last row."""
        return time.perf_counter() - self._since

    @property
    def has_updates(self) -> bool:
        """Whether there were updates since the last row."""
        return bool(self.learner.updates)

    def row(self) -> dict[str, Any]:
        """Return the row of the interval that ends now, and begin the next."""
        updates = self.learner.take_updates()
        totals = self.learner.statistics.zeros()
        for update in updates:
            totals.vector += update.statistics.vector
        row = {
            **self._time(),
            **self._episodes(totals),
            **self._learning(updates, totals),
            **self._batch_sizes(updates),
            **self._accounting(),
            **self._speed(),
        }
        self.start_interval()
        return row

    def _time(self) -> dict[str, Any]:
        learner = self.learner
        return {
            "time": learner.progress.seconds,
            "step": learner.progress.step,
            "updates": learner.progress.updates,
            "model_version": learner.model_version(),
            "peers": len(learner.group.members()),
            "leader": learner.is_leader,
            "checksum": learner.progress.checksum,
            "checksum_updates": learner.progress.checksum_updates,
        }

    def _episodes(self, totals: Statistics[Tensor]) -> dict[str, Any]:
        steps, episodes = float(totals.steps), float(totals.episodes)
        rewards = zip(self.pool.reward_names, totals.reward_terms.tolist(), strict=True)
        return {
            "mean_episode_return": ratio(float(totals.episode_return), episodes),
            "mean_episode_length": ratio(float(totals.episode_length), episodes),
            "episodes": round(episodes),
            "falls": round(float(totals.falls)),
            "timeouts": round(float(totals.timeouts)),
            "blowups": round(float(totals.blowups)),
            "lin_vel_error": ratio(float(totals.lin_vel_error), steps),
            "yaw_rate_error": ratio(float(totals.yaw_rate_error), steps),
            **{f"reward_{name}": ratio(value, steps) for name, value in rewards},
        }

    def _learning(self, updates: list[Update], totals: Statistics[Tensor]) -> dict[str, Any]:
        progress, contributions = self.learner.progress, sum(u.num_gradients for u in updates)
        sequences = ratio(float(totals.steps), self.config.unroll_length)
        return {
            **totals.mean_metrics(contributions)._asdict(),
            "learning_rate": progress.learning_rate,
            "grad_norm": ratio(sum(u.grad_norm for u in updates), len(updates)),
            "action_std": float(self.learner.policy.log_std.detach().exp().mean()),
            "policy_lag": ratio(float(totals.policy_lag), sequences),
            "dropped_gradients": progress.dropped,
        }

    def _batch_sizes(self, updates: list[Update]) -> dict[str, Any]:
        sizes = [u.batch_size for u in updates]
        return {
            "virtual_batch_size": self.config.virtual_batch_size,
            "gradient_batch_size": ratio(sum(sizes), len(sizes)),
            "gradient_batch_size_min": min(sizes, default=NAN),
            "gradient_batch_size_max": max(sizes, default=NAN),
            "num_gradients": ratio(sum(u.num_gradients for u in updates), len(updates)),
            "num_skipped": ratio(sum(u.num_skipped for u in updates), len(updates)),
        }

    def model_of_run(self) -> ParallelSimRunScenario | None:
        """Return the run so far, as it was asked for; None before the first whole update."""
        progress, epochs = self.learner.progress, self.config.algorithm.epochs
        if progress.updates < epochs or progress.seconds <= 0:
            return None
        return ParallelSimRunScenario(
            robots=self.config.virtual_batch_size,
            steps_per_update=self.config.unroll_length,
            updates=progress.updates // epochs,
            training_time=units.Quantity(progress.seconds, "s"),
            policy_rate=self.policy_rate,
        )

    def _accounting(self) -> dict[str, Any]:
        progress, model = self.learner.progress, self.model_of_run()
        row: dict[str, Any] = {"transitions": progress.transitions}
        if model is not None:
            left = max(self.config.total_steps - progress.step, 0)
            row |= {
                "modeled_transitions": model.samples,
                "modeled_throughput": model.throughput.m_as("1/s"),
                "modeled_simulated_experience_days": model.simulated_experience.m_as("day"),
                "modeled_eta_minutes": model.time_for(left).m_as("min"),
            }
        return row

    def _speed(self) -> dict[str, Any]:
        elapsed, counters, before = self.age, self.pool.counters, self._counters_before
        return {
            "steps_per_second": (self.learner.progress.step - self._step_before) / elapsed,
            "local_steps": counters.policy_steps,
            "local_steps_per_second": (counters.policy_steps - before.policy_steps) / elapsed,
            "physics_steps_per_second": (counters.physics_steps - before.physics_steps) / elapsed,
            **{f"share_{activity}": share for activity, share in self.timer.shares().items()},
        }


def published_run_here(published: ScenarioConfig, steps_per_second: float) -> ParallelSimRunScenario:
    """Return a published run with the training time that it would need at the rate measured here."""
    settings = {name: value for name, value in asdict(published).items() if name != "name"}
    any_time = from_settings(settings | {"training_time": "1 s"})
    return replace(any_time, training_time=units.Quantity(any_time.samples / steps_per_second, "s"))
