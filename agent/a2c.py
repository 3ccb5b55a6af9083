"""A2C on CartPole: the shortest program that trains through moolib, to be read from top to bottom.

    python -m agent.a2c                        # writes outputs/a2c/TIME/logs.tsv; logs.tsv points at it
    python -m agent.a2c seed=2 num_envs=16     # the options below are the fields of Config
    python plot.py logs.tsv

Broker and accumulator live in this one process; more peers could connect to the same broker.

The method is the advantage actor-critic of Mnih et al. 2016 (arXiv 1602.01783) with the generalised advantage
estimator of Schulman et al. 2016 (arXiv 1506.02438). An episode that is cut at its time limit has not failed:
the value of its last state stands for the rewards that would have come.
"""

import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import gymnasium
import torch
from gymnasium.vector import AutoresetMode
from torch import Tensor, nn
from torch.distributions import Categorical

import moolib
from agent.cli.arguments import command, option
from agent.errors import ConfigError
from agent.logs.tsv_log import Column, TsvLog
from agent.storage.files import symlink


@dataclass(frozen=True)
class Config:
    """The settings, `key=value` on the command line."""

    total_steps: float = option(300_000, "environment steps to train for")
    seed: int = option(1, "of the model, the actions and the environments")
    num_envs: int = option(8, "environments; the batch size, one sequence of each")
    unroll_length: int = option(64, "steps of a sequence")
    learning_rate: float = option(4e-3, "of Adam at the start; falls to 0 in a straight line")
    discounting: float = option(0.99, "discount of the reward one step later, the usual gamma")
    gae_lambda: float = option(0.95, "0: one-step advantages, 1: whole returns")
    entropy_cost: float = option(0.001, "weight of the entropy bonus")
    baseline_cost: float = option(0.5, "weight of the value loss")
    grad_norm_clipping: float = option(1.0, "largest norm of a gradient")
    log_interval: int = option(2_000, "environment steps between two rows of logs.tsv")

    def __post_init__(self) -> None:
        for name in ("total_steps", "num_envs", "unroll_length", "log_interval"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name}={getattr(self, name)}: must be greater than 0")


COLUMNS = (
    Column("time", "s", "since the start"),
    Column("step", "steps", "environment steps"),
    Column("mean_episode_return", "", "mean of the last 100 episodes"),
    Column("policy_loss", "", "of the newest batch"),
    Column("baseline_loss", "", "of the newest batch"),
    Column("entropy", "nats", "of the actions in the newest batch"),
    Column("grad_norm", "", "of the last update, before clipping"),
    Column("gradient_batch_size", "sequences", "that went into the last update"),
)


class Model(nn.Module):
    """Policy and value of CartPole."""

    def __init__(self, size: int = 64) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, size), nn.Tanh(), nn.Linear(size, size), nn.Tanh())
        self.policy, self.baseline = nn.Linear(size, 2), nn.Linear(size, 1)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits `[..., 2]` and values `[...]` of `obs` `[..., 4]`."""
        features = self.body(obs)
        return self.policy(features), self.baseline(features).squeeze(-1)


class Actor:
    """Steps CartPole-v1, with v0's limit of 200 steps, one unroll after the other."""

    def __init__(self, model: Model, config: Config) -> None:
        self.model, self.config = model, config
        mode = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.envs = gymnasium.make_vec("CartPole-v1", config.num_envs, "sync", mode, max_episode_steps=200)
        self.obs = torch.from_numpy(self.envs.reset(seed=config.seed)[0])
        self.returns = torch.zeros(config.num_envs)  # so far, of the episodes that go on
        self.last_returns: deque[float] = deque(maxlen=100)  # of episodes that have ended

    @torch.no_grad()
    def unroll(self) -> list[Tensor]:
        """Act for T steps; return `[T, B, …]`: observations, actions, rewards, and `done`.

        Rewards are 1 - discounting, so that no value exceeds 1. At a time limit they include the value of the
        last state.
        """
        steps = []
        for _ in range(self.config.unroll_length):
            actions = Categorical(logits=self.model(self.obs)[0]).sample()
            obs, rewards, terminated, truncated, info = self.envs.step(actions.numpy())
            self.returns += torch.from_numpy(rewards)
            rewards = torch.from_numpy(rewards).float() * (1 - self.config.discounting)
            done, cut = torch.from_numpy(terminated | truncated), truncated & ~terminated
            if cut.any():
                final_obs = torch.stack([torch.from_numpy(final) for final in info["final_obs"][cut]])
                rewards[cut] += self.config.discounting * self.model(final_obs)[1]
            steps.append((self.obs, actions, rewards, done))
            self.obs = torch.from_numpy(obs)
            self.last_returns.extend(self.returns[done].tolist())
            self.returns[done] = 0
        return [torch.stack(parts) for parts in zip(*steps, strict=True)]


def compute_gae(rewards: Tensor, values: Tensor, next_value: Tensor, done: Tensor, config: Config) -> Tensor:
    """Return generalised advantage estimates `[T, B]`, of `rewards`, `values` and `done` `[T, B]`.

    `next_value` `[B]` is of the state after the last step; nothing is expected after a step that is `done`.
    """
    advantages, advantage = torch.empty_like(rewards), torch.zeros_like(next_value)
    for t in reversed(range(len(rewards))):
        discount = config.discounting * ~done[t]
        error = rewards[t] + discount * next_value - values[t]
        advantages[t] = advantage = error + config.gae_lambda * discount * advantage
        next_value = values[t]
    return advantages


def compute_loss(model: Model, actor: Actor, config: Config) -> tuple[Tensor, dict[str, Tensor]]:
    """Act, and return the loss of the unroll, with its parts for the log."""
    obs, actions, rewards, done = actor.unroll()
    logits, values = model(obs)
    with torch.no_grad():
        advantages = compute_gae(rewards, values, model(actor.obs)[1], done, config)
        targets = values + advantages
    policy = Categorical(logits=logits)
    policy_loss = -(policy.log_prob(actions) * advantages).mean()
    baseline_loss = (targets - values).square().mean()
    entropy = policy.entropy().mean()
    loss = policy_loss + config.baseline_cost * baseline_loss - config.entropy_cost * entropy
    return loss, {"policy_loss": policy_loss, "baseline_loss": baseline_loss, "entropy": entropy}


def train(config: Config, log: TsvLog) -> None:
    """Train for `total_steps`; write a row of `log` every `log_interval` steps."""
    torch.manual_seed(config.seed)
    torch.set_num_threads(1)  # the tensors are small
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=config.learning_rate)
    actor = Actor(model, config)
    broker = moolib.Broker()
    accumulator = moolib.Accumulator("a2c", model.parameters(), model.buffers())
    accumulator.set_virtual_batch_size(config.num_envs)
    accumulator.connect(broker.listen("127.0.0.1:0"))
    start, step, row = time.monotonic(), 0, dict[str, object]()
    while step < config.total_steps:
        broker.update()
        accumulator.update()
        if accumulator.has_gradients():
            row["gradient_batch_size"] = accumulator.get_gradient_stats()["batch_size"]
            row["grad_norm"] = nn.utils.clip_grad_norm_(model.parameters(), config.grad_norm_clipping)
            optimizer.param_groups[0]["lr"] = config.learning_rate * (1 - step / config.total_steps)
            optimizer.step()
            accumulator.zero_gradients()
        elif accumulator.wants_gradients():
            loss, parts = compute_loss(model, actor, config)
            loss.backward()
            accumulator.reduce_gradients(config.num_envs)
            rows, step = step // config.log_interval, step + config.num_envs * config.unroll_length
            if step // config.log_interval > rows:
                mean_return = sum(last) / len(last) if (last := actor.last_returns) else None
                row |= {"time": time.monotonic() - start, "step": step, "mean_episode_return": mean_return}
                log.write(row | parts)
        else:
            accumulator.wait(1.0)


def run(config: Config) -> None:
    """Train, and log to a new directory."""
    directory = Path("outputs/a2c") / time.strftime("%Y%m%d-%H%M%S")
    directory.mkdir(parents=True, exist_ok=True)
    log = TsvLog(directory / "logs.tsv", COLUMNS)
    if not symlink(directory / "logs.tsv", "logs.tsv"):
        print(f"logs.tsv is a file of its own here; this run's is {directory}/logs.tsv")
    train(config, log)


def main(arguments: Sequence[str] | None = None) -> int:
    return command("agent.a2c", Config, run, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
