"""One peer of a training run: its robots, its replica of the model, its files, and the loop over them.

The loop is: act for one rollout, and meanwhile contribute the gradients of the one before, minibatch by
minibatch (`Lessons`). The group's updates are applied whenever they arrive (`Learner.poll`). A peer leaves
only between two rollouts, so that what it writes when it stops is all that it needs to go on.
"""

from __future__ import annotations

import time
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

import moolib
from agent.algorithms.loss import make_loss
from agent.algorithms.rollout import Rollout
from agent.config import Config, ConfigError
from agent.errors import LogError
from agent.logs.columns import columns
from agent.logs.console import TrainingConsole
from agent.logs.log import Logs
from agent.logs.metadata import write_metadata
from agent.logs.timer import Timer
from agent.logs.tsv_log import TsvLog
from agent.logs.wandb_log import WandbLog
from agent.models.policy import make_policy
from agent.storage import checkpoint
from agent.storage.files import symlink
from agent.training import snapshot, threads
from agent.training.actors import Actors
from agent.training.descriptors import DescriptorWatch
from agent.training.gradient_worker import Lessons
from agent.training.learner import Learner, TrainingError
from agent.training.metrics_row import Journal, group_sums_sizes
from agent.training.statistics import GroupSums
from envs import EnvPool, device, make_pool

REFUSAL_PATIENCE = 2.0  # s in which a refusal may still be about a peer of our name that has just died
STOP_PATIENCE = 2.0  # s that a stopping peer waits for the group to take the rest of its rollout


class Peer:
    """Everything of one process; `train()` runs until the end, or until `stop()` is called."""

    def __init__(self, config: Config, rpc: moolib.Rpc, status: TrainingConsole) -> None:
        self.config, self.rpc, self.status = config, rpc, status
        self.stop_requested: float | None = None  # time.monotonic() of the request
        self.savedir, self.localdir = Path(config.savedir), Path(config.localdir)
        self.checkpoint_path = self.savedir / "checkpoint.safetensors"
        seeds = self._seeds()
        torch.manual_seed(int(seeds[0]))
        torch.set_num_threads(threads.ACTING)
        self.pool = self._make_pool(int(seeds[1]))
        policy = make_policy(config.model, self.pool.obs_dim, self.pool.action_dim, self.pool.mirror)
        policy.to(config.device)
        self.group = moolib.Group(rpc, config.train_id)
        self.group.set_timeout(config.group_timeout)
        try:
            self.group.set_advertise(config.advertise)
        except ValueError as error:
            raise ConfigError(f"advertise={config.advertise}: {error}") from None
        self.clock = Timer()
        sums = GroupSums(group_sums_sizes(self.pool.obs_dim, len(self.pool.reward_names)))
        self.learner = Learner(config, policy, self.group, sums, self.clock, self._give_up)
        acting = torch.Generator(config.device).manual_seed(int(seeds[2]))
        learning = torch.Generator().manual_seed(int(seeds[3]))
        self.lessons = Lessons(config, self.learner, make_loss(config, policy), self.clock, learning)
        self.actors = Actors(config, self.pool, policy, sums, self.clock, acting)
        self.pending: Rollout | None = None  # collected, not yet learned from
        self.descriptors = DescriptorWatch()
        self.wandb_id: str | None = None
        self.checkpoint_at = self.history_at = 0.0
        self._resume()
        self.logs = Logs([])  # until we have joined
        self.last_row: dict[str, Any] = {}

    def stop(self) -> None:
        """Asks the loop to end after the rollout that it is at; may be called by a signal handler."""
        self.stop_requested = time.monotonic()

    def _give_up(self) -> bool:
        """Whether to leave even in the middle of a rollout: the group has kept us waiting after `stop()`."""
        return self.stop_requested is not None and time.monotonic() - self.stop_requested > STOP_PATIENCE

    def _seeds(self) -> np.ndarray:
        """Seeds of model, robots, actions and minibatches; in a group by the peer's name too."""
        entropy = [self.config.seed]
        if self.config.connect is not None:
            entropy.append(zlib.crc32(self.config.local_name.encode()))
        return np.random.SeedSequence(entropy).generate_state(4)

    def _make_pool(self, seed: int) -> EnvPool:
        config, physics_threads = self.config, threads.physics_threads(self.config)
        try:
            return make_pool(
                config.env, config.actor_batch_size, config.num_actor_batches, seed, physics_threads
            )
        except ValueError as error:
            raise ConfigError(str(error)) from None

    # ------------------------------------------------------------------ files

    def _open_logs(self) -> Logs:
        self.localdir.mkdir(parents=True, exist_ok=True)
        config = asdict(self.config)
        write_metadata(self.localdir / "meta.json", config, peer=self.config.local_name)
        tsv = TsvLog(self.localdir / "logs.tsv", columns(self.pool.reward_names))
        if cut := tsv.cut("updates", self.learner.progress.updates):
            self.status.say(
                f"took back {cut} rows of logs.tsv: what they tell of was lost and is learned again"
            )
        symlink(self.savedir, "latest")
        if not symlink(self.localdir / "logs.tsv", "logs.tsv"):
            self.status.say("logs.tsv is a file of its own here, so it does not point at this run's log")
        if not self.config.wandb:
            return Logs([tsv])
        last = tsv.last_row()
        wandb = WandbLog(
            project=self.config.project,
            name=self.config.local_name,
            config=config,
            directory=self.localdir,
            entity=self.config.entity,
            group=self.config.group,
            run_id=self.wandb_id,
            last_step=float(last["step"]) if last else -1,
        )
        self.wandb_id = wandb.run_id
        return Logs([tsv, wandb])

    def _resume(self) -> None:
        """Goes on from the group's checkpoint, and from the states of our robots in it if we wrote it."""
        if not self.checkpoint_path.exists():
            return
        snapshot.restore(self, checkpoint.load(self.checkpoint_path))
        self.checkpoint_at = self.history_at = self.learner.progress.seconds
        self.status.say(f"resuming from {self.checkpoint_path} at step {self.learner.progress.step:,}")

    def save(self, path: Path | None = None) -> None:
        """Writes the group's checkpoint, with the states of our own robots, so that resuming is exact."""
        checkpoint.save(path or self.checkpoint_path, snapshot.take(self))

    def _save_when_due(self) -> None:
        """Writes the checkpoints that are due; one that fails is tried again after the next interval."""
        seconds = self.learner.progress.seconds
        if not self.learner.accumulator.is_leader():
            return
        try:
            if seconds - self.checkpoint_at >= self.config.checkpoint_interval:
                self.checkpoint_at = seconds
                self.save()
            if seconds - self.history_at >= self.config.checkpoint_history_interval:
                self.history_at = seconds
                self.save(checkpoint.history(self.checkpoint_path, self.learner.progress.updates))
        except checkpoint.CheckpointError as error:
            self.status.say(f"warning: {error}; training goes on")

    def _dump(self) -> str:
        """Writes the last batch, for whoever looks for the reason; says where it is."""
        path = self.localdir / "last-batch.safetensors"
        if self.lessons.minibatch is None:
            return "this peer had learned from no batch yet"
        try:
            checkpoint.save(
                path, {"batch": vars(self.lessons.minibatch), "progress": asdict(self.learner.progress)}
            )
        except checkpoint.CheckpointError as error:
            return str(error)
        return f"the last batch is in {path}"

    # ------------------------------------------------------------------ training

    def train(self) -> None:
        """Trains until `total_steps` or `stop`; the leader leaves a checkpoint behind.

        Raises:
            ConfigError: no broker or group was found in time, or the group trains with other settings.
            TrainingError: the model has blown up; the last batch was dumped.
        """
        try:
            if self.join():
                self._train()
        except TrainingError as error:
            raise TrainingError(f"{error}: training stops; {self._dump()}") from None

    def _train(self) -> None:
        self.journal = Journal(self.config, self.pool, self.learner, self.clock)
        self.logs = self._open_logs()
        self.status.say(
            f"training {self.config.env.name} with {self.config.algorithm.name}: "
            f"{self.config.sequences} robots here, logs in {self.localdir}/logs.tsv"
        )
        warm_until = time.monotonic() + self.config.warmup
        was_leader = False
        while not (self.stop_requested or self.learner.finished):
            self.round(learn=time.monotonic() >= warm_until)
            is_leader = self.learner.accumulator.is_leader()
            if is_leader and not was_leader:
                number = len(list(self.savedir.glob("leader-*")))
                symlink(self.localdir, self.savedir / f"leader-{number:03d}")
            was_leader = is_leader
            if self.journal.age >= self.config.log_interval:
                self._log()
            self._save_when_due()
        if self.learner.updates:
            self._log()
        if self.learner.accumulator.is_leader() or not self.checkpoint_path.exists():
            self.save()

    def round(self, learn: bool = True) -> None:
        """One rollout of all our robots, and what is learned from the one before.

        Args:
            learn: Whether something shall be learned from this one.
        """
        began = time.monotonic()
        if self.pending:
            self.lessons.begin(self.pending)
        if not (self.config.overlap and self.learner.alone):
            self.lessons.finish()  # others make it old enough
        rollout = self.actors.collect(self.learner, self.lessons)
        self.lessons.finish()
        self.pending = rollout if learn else None
        self.learner.progress.seconds += time.monotonic() - began

    def join(self) -> bool:
        """Waits until we have a group and a model; False if we are to stop instead."""
        began, said = time.monotonic(), False
        where = f"connect={self.config.connect}"
        while not self.learner.accumulator.connected():
            if self.stop_requested:
                return False
            self.learner.poll()
            self.learner.accumulator.wait(0.05)
            waited, refusal = time.monotonic() - began, self.rpc.debug_info()["refused"]
            if refusal and waited > REFUSAL_PATIENCE:
                raise ConfigError(f"{where}: we were refused: {refusal}")
            if waited > self.config.connect_timeout:
                raise ConfigError(
                    f"{where}: no broker answered within {self.config.connect_timeout:g} s; "
                    "start one with: python -m moolib.broker"
                )
            if waited > 1.0 and not said:
                self.status.say(f"waiting for the broker at {self.config.connect} and the group's model")
                said = True
        return True

    def _log(self) -> None:
        self.last_row = row = self.journal.row()
        try:
            self.logs.write(row)
        except LogError as error:
            self.status.say(f"warning: {error}; training goes on")
        if warning := self.descriptors.warning():
            self.status.say(f"warning: {warning}")
        self.status.show(row)

    def close(self) -> None:
        """Leaves the group and closes files and threads."""
        self.logs.close()
        self.lessons.close()
        self.pool.close()


def check_device(key: str, name: str) -> None:
    """Raises ConfigError unless tensors can live on this device."""
    try:
        device.check_device(name)
    except ValueError as error:
        raise ConfigError(f"{key}={name}: {error}") from None
