"""The columns of logs.tsv, declared once: name, unit, meaning.

"Group" columns are computed from reduced quantities, so all peers of a group write the same; "local" ones are
about the peer that writes.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent.logs.tsv_log import Column

# fmt: off
TIME = (
    Column("time", "s", "training time, over all restarts"),
    Column("step", "policy steps", "global step: policy steps that all peers have taken"),
    Column("updates", "", "optimizer steps of the shared model"),
    Column("model_version", "", "version of the shared model; grows by one with each reduction"),
    Column("peers", "", "members of the group"),
    Column("leader", "0 or 1", "whether this peer leads the group"),
    Column("checksum", "", "CRC-32 of the parameters after `checksum_updates`: equal on all peers"),
    Column("checksum_updates", "", "the last number of updates that was divisible by 10"),
)
EPISODES = (
    Column("mean_episode_return", "", "group: mean return of the episodes that ended since the last row"),
    Column("mean_episode_length", "policy steps", "group: their mean length"),
    Column("episodes", "", "group: how many ended since the last row"),
    Column("falls", "", "group: of them, ended by a fall (terminated)"),
    Column("timeouts", "", "group: of them, cut by the time limit (truncated)"),
    Column("blowups", "", "group: of them, ended because the physics went bad"),
    Column("lin_vel_error", "m/s", "group: mean error of the horizontal velocity against the command"),
    Column("yaw_rate_error", "rad/s", "group: mean error of the yaw rate against the command"),
)
LEARNING = (
    Column("policy_loss", "", "group: mean over the updates since the last row, like those below"),
    Column("baseline_loss", "", "group: squared error of the value"),
    Column("entropy", "nats", "group: of the action distribution"),
    Column("kl", "nats", "group: KL divergence of the policy from the one that acted"),
    Column("clip_fraction", "0 to 1", "group: share of samples outside PPO's clip range"),
    Column("learning_rate", "", "of the last update"),
    Column("grad_norm", "", "mean norm of the reduced gradient before clipping"),
    Column("action_std", "", "mean standard deviation of the actions"),
    Column("policy_lag", "versions", "group: mean age of the policy that acted when its rollout ended"),
    Column("dropped_gradients", "", "updates left out so far because the gradient was not finite"),
)
BATCH_SIZES = (
    Column("virtual_batch_size", "sequences", "asked for: lower bound of an update's batch"),
    Column("gradient_batch_size", "sequences", "what the reductions really held: mean since the last row"),
    Column("gradient_batch_size_min", "sequences", "least since the last row"),
    Column("gradient_batch_size_max", "sequences", "most since the last row"),
    Column("num_gradients", "", "mean contributions to an update since the last row"),
    Column("num_skipped", "", "mean contributions left out of an update since the last row"),
)
ACCOUNTING = (
    Column("transitions", "policy steps", "counted: those that went into updates, once for all epochs"),
    Column("modeled_transitions", "policy steps", "robots x steps per update x updates, as asked for"),
    Column("modeled_throughput", "1/s", "modeled transitions over training time"),
    Column("modeled_simulated_experience_days", "days", "modeled transitions over the policy rate"),
    Column("modeled_eta_minutes", "min", "the steps left over the modeled throughput"),
)
SPEED = (
    Column("steps_per_second", "1/s", "group: policy steps of all peers since the last row"),
    Column("local_steps", "policy steps", "local: taken by this peer's robots"),
    Column("local_steps_per_second", "1/s", "local: policy steps since the last row"),
    Column("physics_steps_per_second", "1/s", "local: physics steps since the last row"),
    Column("share_acting", "0 to 1", "local: share of wall time in which the policy chose actions"),
    Column("share_waiting", "0 to 1", "local: ... spent waiting for robots or for a gradient"),
    Column("share_learning", "0 to 1", "local: ... of gradients and updates, mostly beside the others"),
    Column("share_reducing", "0 to 1", "local: ... spent waiting for the group's reduction"),
)
# fmt: on


def columns(reward_names: Sequence[str]) -> tuple[Column, ...]:
    """Return all columns, in order, for a task with these reward terms."""
    rewards = tuple(
        Column(f"reward_{name}", "per step", f"group: mean of the weighted reward term {name}")
        for name in reward_names
    )
    return TIME + EPISODES + rewards + LEARNING + BATCH_SIZES + ACCOUNTING + SPEED


def describe(name: str) -> tuple[str, str]:
    """Return unit and meaning of a column, `""` for one that is not declared here."""
    for column in columns((name.removeprefix("reward_"),) if name.startswith("reward_") else ()):
        if column.name == name:
            return column.unit, column.description
    return "", ""
