"""Learning-rate schedules, as functions of quantities that all peers share."""

from __future__ import annotations

from agent.config import OptimizerConfig

# The adaptive rule of rsl_rl: change by this factor when the KL divergence leaves [half, twice] the desired
# one, in these bounds.
ADAPTIVE_FACTOR = 1.5
ADAPTIVE_BOUNDS = (1e-5, 1e-2)


def next_learning_rate(config: OptimizerConfig, current: float, updates: int, kl: float) -> float:
    """The learning rate of the update number `updates`, counted from 1.

    Args:
        config: which schedule.
        current: the learning rate of the update before.
        updates: the number of this update.
        kl: the group's mean KL divergence from the behaviour policy in this update (nats).
    """
    if config.schedule == "linear":
        done = min((updates - 1) / config.schedule_updates, 1.0)
        return config.learning_rate + done * (config.final_learning_rate - config.learning_rate)
    if config.schedule == "adaptive":
        low, high = ADAPTIVE_BOUNDS
        if kl > 2.0 * config.desired_kl:
            return max(current / ADAPTIVE_FACTOR, low)
        if 0.0 < kl < 0.5 * config.desired_kl:
            return min(current * ADAPTIVE_FACTOR, high)
        return current
    return config.learning_rate
