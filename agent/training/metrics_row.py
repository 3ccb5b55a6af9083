"""Rows of logs.tsv, from the group's updates, the model of the run and this peer's own clocks."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import Any

import torch

from agent.algorithms.objective import METRICS
from agent.config import Config, ScenarioConfig
from agent.logs.run_model import ParallelSimRunScenario, from_settings, units
from agent.logs.timer import Timer
from agent.training.learner import Learner, Update
from envs import EnvPool

NAN = float("nan")


def group_sums_sizes(obs_dim: int, num_rewards: int) -> dict[str, int]:
    """The names and lengths of what the peers add up over the group (`agent.training.statistics`)."""
    scalars = (
        "steps", "episodes", "falls", "timeouts", "blowups", "episode_return", "episode_length",
        "lin_vel_error", "yaw_rate_error", "policy_lag",
    )  # fmt: skip
    return {
        **dict.fromkeys(scalars, 1),
        "reward_terms": num_rewards,
        "metrics": len(METRICS),
        "obs_moments": 1 + 2 * obs_dim,
    }


def ratio(numerator: float, denominator: float) -> float:
    """numerator / denominator, or NaN where nothing was counted."""
    return numerator / denominator if denominator else NAN


class Journal:
    """Turns what happened since the last row into the next one."""

    def __init__(self, config: Config, pool: EnvPool, learner: Learner, clock: Timer) -> None:
        self.config, self.pool, self.learner, self.clock = config, pool, learner, clock
        self.policy_rate = units.Quantity(pool.policy_rate, "Hz")
        self._start_interval()

    def _start_interval(self) -> None:
        self.since = time.perf_counter()
        self.step_before = self.learner.progress.step
        self.counters_before = self.pool.counters

    @property
    def age(self) -> float:
        """Seconds since the last row."""
        return time.perf_counter() - self.since

    def row(self) -> dict[str, Any]:
        """The row of the interval that ends now; the next one begins."""
        updates, self.learner.updates = self.learner.updates, []
        totals = self._totals(updates)
        row = {
            **self._time(),
            **self._episodes(totals),
            **self._learning(updates, totals),
            **self._batch_sizes(updates),
            **self._accounting(),
            **self._speed(),
        }
        self._start_interval()
        return row

    def _totals(self, updates: list[Update]) -> dict[str, torch.Tensor]:
        """The group's sums over the whole interval, zeros where there was no update."""
        sizes = group_sums_sizes(self.pool.obs_dim, len(self.pool.reward_names))
        totals = {name: torch.zeros(size, dtype=torch.float64) for name, size in sizes.items()}
        for update in updates:
            for name, value in update.sums.items():
                totals[name] += value
        return totals

    def _time(self) -> dict[str, Any]:
        learner = self.learner
        return {
            "time": learner.progress.seconds,
            "step": learner.progress.step,
            "updates": learner.progress.updates,
            "model_version": learner.accumulator.model_version(),
            "peers": len(learner.group.members()),
            "leader": learner.accumulator.is_leader(),
            "checksum": learner.progress.checksum,
            "checksum_updates": learner.progress.checksum_updates,
        }

    def _episodes(self, totals: dict[str, torch.Tensor]) -> dict[str, Any]:
        steps, episodes = float(totals["steps"]), float(totals["episodes"])
        rewards = zip(self.pool.reward_names, totals["reward_terms"].tolist(), strict=True)
        return {
            "mean_episode_return": ratio(float(totals["episode_return"]), episodes),
            "mean_episode_length": ratio(float(totals["episode_length"]), episodes),
            "episodes": round(episodes),
            **{name: round(float(totals[name])) for name in ("falls", "timeouts", "blowups")},
            "lin_vel_error": ratio(float(totals["lin_vel_error"]), steps),
            "yaw_rate_error": ratio(float(totals["yaw_rate_error"]), steps),
            **{f"reward_{name}": ratio(value, steps) for name, value in rewards},
        }

    def _learning(self, updates: list[Update], totals: dict[str, torch.Tensor]) -> dict[str, Any]:
        progress, contributions = self.learner.progress, sum(u.num_gradients for u in updates)
        sequences = ratio(float(totals["steps"]), self.config.unroll_length)
        metrics = zip(METRICS, totals["metrics"].tolist(), strict=True)
        return {
            **{name: ratio(value, contributions) for name, value in metrics},
            "learning_rate": progress.learning_rate,
            "grad_norm": ratio(sum(u.grad_norm for u in updates), len(updates)),
            "action_std": float(self.learner.policy.log_std.detach().exp().mean()),
            "policy_lag": ratio(float(totals["policy_lag"]), sequences),
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
        """The run so far as a scenario of what was asked for; None before it can be stated."""
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
        elapsed, counters, before = self.age, self.pool.counters, self.counters_before
        return {
            "steps_per_second": (self.learner.progress.step - self.step_before) / elapsed,
            "local_steps": counters.policy_steps,
            "local_steps_per_second": (counters.policy_steps - before.policy_steps) / elapsed,
            "physics_steps_per_second": (counters.physics_steps - before.physics_steps) / elapsed,
            **{f"share_{activity}": share for activity, share in self.clock.shares().items()},
        }


def published_run_here(published: ScenarioConfig, steps_per_second: float) -> ParallelSimRunScenario:
    """A published run as it would be at the rate measured here: its `training_time` is ours."""
    settings = {name: value for name, value in asdict(published).items() if name != "name"}
    any_time = from_settings(settings | {"training_time": "1 s"})
    return replace(any_time, training_time=units.Quantity(any_time.samples / steps_per_second, "s"))
