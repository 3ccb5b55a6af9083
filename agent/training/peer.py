"""One peer of a training run: the loop, and the parts that it calls.

    act for one rollout      Actors          robots, policy, statistics
    compute its gradients    GradientWorker  in a thread, during the next rollout
    share them               Learner         the replica of the model and its group
    log and save             MetricsRow, RunFiles, Checkpoints

A peer leaves only between two rollouts, so that its last checkpoint holds all that it needs to continue.
"""

from __future__ import annotations

import time
import zlib
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

import moolib
from agent.algorithms.objective import make_loss
from agent.algorithms.rollout import Rollout
from agent.config import Config, ConfigError, check_shared_settings, differences
from agent.errors import CheckpointError, TrainingError
from agent.logs.console import TrainingConsole
from agent.logs.timer import Timer
from agent.models.policy import make_policy
from agent.training.actors import Actors
from agent.training.checkpoints import Checkpoints, dump_batch
from agent.training.descriptors import DescriptorWatch
from agent.training.gradient_worker import GradientWorker
from agent.training.learner import Learner
from agent.training.metrics_row import MetricsRow
from agent.training.run_files import RunFiles
from agent.training.statistics import GroupStatistics
from agent.training.wait_for_group import wait_for_group
from envs import RobotPool, machine, make_pool

ACTING_THREADS = 1  # torch threads of the main thread: more do not pay for batches of some hundred robots
STOP_PATIENCE = 2.0  # s that a stopping peer waits for the group to take the rest of its rollout

MAY_DIFFER = ("connect", "advertise", "key_file", "local_name", "savedir", "localdir")
"""Settings whose change on resuming needs no mention."""


class Peer:
    """One process of a training run; `train()` runs until the end, or until `stop()` is called."""

    def __init__(self, config: Config, rpc: moolib.Rpc, console: TrainingConsole) -> None:
        """Build all parts, and resume from the run's checkpoint if there is one.

        Raises:
            ConfigError: A setting cannot be used, or does not match the checkpoint.
            CheckpointError: The checkpoint cannot be used.
        """
        self.config, self.rpc, self.console = config, rpc, console
        self.stop_requested_at: float | None = None  # time.monotonic() of the request
        model_seed, env_seed, action_seed, minibatch_seed = self._seeds()
        torch.manual_seed(model_seed)
        torch.set_num_threads(ACTING_THREADS)
        self.pool = _make_pool(config, env_seed)
        policy = make_policy(config.model, self.pool.obs_dim, self.pool.action_dim, self.pool.mirror)
        policy.to(config.device)
        statistics = GroupStatistics(self.pool.obs_dim, len(self.pool.reward_names))
        self.timer = timer = Timer()
        self.learner = Learner(config, policy, _make_group(config, rpc), statistics, timer, self._give_up)
        self.gradients = GradientWorker(
            config.algorithm,
            config.batch_size,
            policy,
            make_loss(policy, config.algorithm, config.device, config.precision, config.compile),
            self.learner.parameters,
            torch.Generator().manual_seed(minibatch_seed),
            timer,
            config.gradient_threads,
        )
        noise = torch.Generator(config.device).manual_seed(action_seed)
        self.actors = Actors(self.pool, policy, statistics, config.unroll_length, noise, timer, config.device)
        self.rollout: Rollout | None = None  # collected, not yet learned from
        self.metrics = MetricsRow(config, self.pool, self.learner, timer)
        self.last_row: dict[str, Any] = {}
        self.descriptors = DescriptorWatch()
        self.files = RunFiles(config, console.say)
        self.checkpoints = Checkpoints(
            self.files.savedir, config.checkpoint_interval, config.checkpoint_history_interval
        )
        if self.checkpoints.resume(self.load_state_dict):
            self.checkpoints.resumed_at(self.learner.progress.seconds)
            step = self.learner.progress.step
            console.say(f"resuming from {self.checkpoints.path} at step {step:,}")

    # ------------------------------------------------------------------ the loop

    def train(self) -> None:
        """Train until `total_steps` or `stop()`; the leader leaves a checkpoint behind.

        Raises:
            ConfigError: No broker or group was found in time, or the group trains with other settings.
            TrainingError: The model has diverged; the last batch was written to a file.
        """
        try:
            self.checkpoints.prepare()
            if not self.join():
                return
            self._open_files()
            warm_until = time.monotonic() + self.config.warmup  # rollouts before that are thrown away
            while not (self.stop_requested_at or self.learner.finished):
                self.train_on_one_rollout(keep=time.monotonic() >= warm_until)
                self._log_and_save_when_due()
            self._log_and_save_at_the_end()
        except TrainingError as error:
            raise TrainingError(f"{error}: training stops; {self._dump()}") from None
        except BaseException:
            self._save_model()  # nothing learned is lost, whatever went wrong
            raise

    def train_on_one_rollout(self, keep: bool = True) -> None:
        """Collect one rollout, and meanwhile learn from the one before.

        Args:
            keep: Whether to learn from the new rollout, during the next call.
        """
        began = time.monotonic()
        learner, gradients = self.learner, self.gradients
        if self.rollout:
            gradients.begin(self.rollout)
        takes_turns = not learner.alone or not self.config.overlap
        if takes_turns:  # with other peers, whose updates make the data old enough without an overlap
            self._contribute_the_rest()
        for share in self.actors.collect(learner.model_version):  # of the new rollout's steps, 0 to 1
            learner.poll()  # members, state, an update that is ready
            if not learner.alone and learner.wants_gradients():
                learner.skip()  # the others need not wait for us
            while gradients.due(share) and learner.wants_gradients():
                self._contribute_one()
        self._contribute_the_rest()  # those that the group did not want in time
        self.rollout = self.actors.rollout if keep else None
        learner.progress.seconds += time.monotonic() - began

    def _contribute_one(self) -> None:
        """Contribute the next gradient. Alone, wait for its update, so that a seed fixes the order of all."""
        self.learner.contribute(self.gradients.take())
        if self.learner.alone:
            self.learner.wait_until_wanted()
            self.gradients.prefetch()

    def _contribute_the_rest(self) -> None:
        """Contribute all gradients that are left, as the group wants them, unless we give up."""
        while self.gradients.due(1.0) and self.learner.wait_until_wanted():
            self._contribute_one()
        self.gradients.drop()
        self.learner.wait_until_wanted()  # our last contribution has become an update

    def join(self) -> bool:
        """Wait until we have a group and its model; return False if we are to stop instead."""
        say, config = self.console.say, self.config
        return wait_for_group(self.learner, self.rpc, config, say, lambda: self.stop_requested_at is not None)

    def stop(self) -> None:
        """Ask the loop to end after the current rollout; a signal handler may call it."""
        self.stop_requested_at = time.monotonic()

    def _give_up(self) -> bool:
        """Return whether to leave in the middle of a rollout: the group kept us waiting after `stop()`."""
        return (
            self.stop_requested_at is not None and time.monotonic() - self.stop_requested_at > STOP_PATIENCE
        )

    # ------------------------------------------------------------------ logs and checkpoints

    def _open_files(self) -> None:
        self.metrics.start_interval()
        self.files.open(self.pool.reward_names, self.learner.progress.updates)
        self.console.say(
            f"training {self.config.env.name} with {self.config.algorithm.name}: "
            f"{self.config.sequences} robots here, logs in {self.config.localdir}/logs.tsv"
        )

    def _log_and_save_when_due(self) -> None:
        is_leader, progress = self.learner.is_leader, self.learner.progress
        self.files.link_leader(is_leader)
        if self.metrics.age >= self.config.log_interval:
            self._log()
        if is_leader:
            try:
                self.checkpoints.save_when_due(progress.seconds, progress.updates, self.state_dict)
            except CheckpointError as error:
                self.console.say(f"warning: {error}; training goes on")

    def _log_and_save_at_the_end(self) -> None:
        if self.metrics.has_updates:
            self._log()
        if self.learner.is_leader or not self.checkpoints.path.exists():  # in a savedir of our own, say
            self.checkpoints.save(self.state_dict())

    def _save_model(self) -> None:
        """Save the model and the group's counters in the middle of a rollout, if we are the leader."""
        if self.learner.is_leader and self.learner.progress.updates:
            try:
                self.checkpoints.save(self.state_dict(between_rollouts=False))
            except CheckpointError as error:
                self.console.say(f"warning: {error}")

    def _log(self) -> None:
        self.last_row = row = self.metrics.row()
        self.files.write(row)
        if warning := self.descriptors.warning():
            self.console.say(f"warning: {warning}")
        self.console.show(row)

    def _dump(self) -> str:
        if self.gradients.minibatch is None:
            return "this peer had learned from no batch yet"
        path = self.files.localdir / "last-batch.safetensors"
        return dump_batch(path, vars(self.gradients.minibatch), asdict(self.learner.progress))

    def close(self) -> None:
        """Close files and threads."""
        self.files.close()
        self.gradients.close()
        self.pool.close()

    # ------------------------------------------------------------------ state

    def state_dict(self, between_rollouts: bool = True) -> dict[str, Any]:
        """Return everything that the run needs to continue.

        Args:
            between_rollouts: Include this peer's robots, so that it continues exactly.
        """
        return {
            "model_version": self.learner.model_version(),
            "policy": self.learner.policy.state_dict(),
            "learner": self.learner.state_dict(),
            "config": asdict(self.config),
            "writer": {
                "local_name": self.config.local_name,
                "wandb_id": self.files.wandb_id,
                "robots": _robots(self.config),
                "actors": self.actors.state_dict() if between_rollouts else None,
                "minibatches": self.gradients.generator.get_state(),
                "pending": self.rollout is not None,
            },
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue the run, and the writer's robots if this peer wrote the state and has the same robots.

        Raises:
            ConfigError: It was trained with settings that a model cannot change.
        """
        where = str(self.checkpoints.path)
        check_shared_settings(self.config, state["learner"]["settings"], where)
        ours, theirs = (
            {key: value for key, value in config.items() if key not in MAY_DIFFER}
            for config in (asdict(self.config), state["config"])
        )
        if different := differences(ours, theirs):
            self.console.say(f"other settings than in {where}: {'; '.join(different)}")
        self.learner.policy.load_state_dict(state["policy"])
        self.learner.load_state_dict(state["learner"])
        self.learner.accumulator.set_model_version(state["model_version"])
        writer = state["writer"]
        if writer["local_name"] == self.config.local_name:
            self.files.wandb_id = writer["wandb_id"]
            if writer["actors"] is not None and writer["robots"] == _robots(self.config):
                self.actors.load_state_dict(writer["actors"])
                self.gradients.generator.set_state(writer["minibatches"])
                self.rollout = self.actors.rollout if writer["pending"] else None

    def _seeds(self) -> list[int]:
        """Return seeds of model, robots, actions and minibatches; in a group they depend on our name too."""
        entropy = [self.config.seed]
        if self.config.connect is not None:
            entropy.append(zlib.crc32(self.config.local_name.encode()))
        return [int(seed) for seed in np.random.SeedSequence(entropy).generate_state(4)]


def _robots(config: Config) -> dict[str, Any]:
    """Return what the saved states of the robots depend on; random states also on the kind of device."""
    sizes, kind = [config.actor_batch_size, config.num_actor_batches], config.device.partition(":")[0]
    return {"env": asdict(config.env), "sizes": sizes, "seed": config.seed, "device": kind}


def _make_pool(config: Config, seed: int) -> RobotPool:
    size, batches, threads = (
        config.actor_batch_size, config.num_actor_batches, config.physics_threads_per_batch,
    )  # fmt: skip
    try:
        return make_pool(config.env, size, batches, seed, threads)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _make_group(config: Config, rpc: moolib.Rpc) -> moolib.Group:
    group = moolib.Group(rpc, config.train_id)
    group.set_timeout(config.group_timeout)
    try:
        group.set_advertise(config.advertise)
    except ValueError as error:
        raise ConfigError(f"advertise={config.advertise}: {error}") from None
    return group


def check_device(key: str, name: str) -> None:
    """Raise ConfigError unless tensors can live on this device."""
    try:
        machine.check_device(name)
    except ValueError as error:
        raise ConfigError(f"{key}={name}: {error}") from None
