"""Train, one process for each peer.

    python -m agent.experiment                                  # alone, until the robots walk
    python -m agent.experiment env=go2_unitree algorithm=vtrace model=lstm
    python -m agent.experiment env.randomization.push_interval=5 algorithm.optimizer.learning_rate=1e-3
    python -m agent.experiment connect=IP:4431 group=go2        # one of several peers
    python -m agent.experiment -m seed=1,2,3                    # three runs, one after the other
    python -m agent.experiment --cfg job                        # prints every setting, trains nothing

Without `connect=IP:PORT` the peer embeds a broker and trains alone, though others may join it. Ctrl-C,
SIGTERM or SIGHUP saves a last checkpoint. `agent.training.peer` is the loop.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
import sys
import time
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig
from rich.console import Console

import moolib
from agent.cli import hints, overrides, sweep
from agent.cli.arguments import complain, guard, wants_help
from agent.config import Config, from_omegaconf
from agent.errors import UserError
from agent.logs.console import TrainingConsole
from agent.storage.paths import CONF
from agent.training.metrics_row import published_run_here
from agent.training.peer import Peer, check_device
from moolib import output

NAME = "herd"  # at the beginning of every message
LEAVE_TIME = 0.5  # s that an embedded broker has to notice that its own peer left


def start_rpc(config: Config, console: TrainingConsole) -> tuple[moolib.Rpc, moolib.Broker | None]:
    """Connect to the broker, or embed one, which lives as long as the caller holds it."""
    rpc, broker = moolib.Rpc(key_file=config.key_file), None
    address = config.connect
    if address is None:
        broker = moolib.Broker(moolib.Rpc(key_file=config.key_file))
        broker.set_name("broker")
        address = broker.listen("127.0.0.1:0")
        console.say(f"broker embedded; to add peers: {hints.join(address, config.project, config.group)}")
    rpc.set_name(config.local_name)
    rpc.connect(address)
    return rpc, broker


def run(config: Config) -> sweep.Outcome:
    """Train one peer from start to end."""
    check_device("device", config.device)
    check_device("env.device", config.env.device or "cpu")
    with TrainingConsole(f"{config.project}/{config.group}", config.total_steps) as console:
        rpc, broker = start_rpc(config, console)
        peer = Peer(config, rpc, console)
        _stop_on_signals(peer)
        try:
            peer.train()
        finally:
            peer.close()
        say_goodbye(config, peer, console)
        if broker is not None:
            _keep_while_needed(broker, console)
    progress, end = peer.learner.progress, "finished" if peer.learner.finished else "stopped"
    errors = (peer.last_row.get(name, math.nan) for name in ("lin_vel_error", "yaw_rate_error"))
    return sweep.Outcome(config.savedir, end, progress.step, progress.seconds, *errors)


def _stop_on_signals(peer: Peer) -> None:
    """Let a first Ctrl-C, SIGTERM or SIGHUP finish the rollout and save, and a second one end the process."""

    def handle(number: int, _frame: object) -> None:
        peer.stop()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # as nohup leaves it
            signal.signal(number, handle)


def _keep_while_needed(broker: moolib.Broker, console: TrainingConsole) -> None:
    """Keep the embedded broker as long as other peers are members, or until Ctrl-C."""

    def members() -> int:
        return sum(map(len, broker.members().values()))

    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    with contextlib.suppress(KeyboardInterrupt):
        noticed_by = time.monotonic() + LEAVE_TIME
        while members() and time.monotonic() < noticed_by:  # until the broker has noticed that we left
            time.sleep(0.01)
        if others := members():
            console.say(f"the broker in this process stays for {others} other peers; Ctrl-C ends it")
        while members():
            time.sleep(0.1)
    broker.close()


def say_goodbye(config: Config, peer: Peer, console: TrainingConsole) -> None:
    """Say what the run has reached and what to type next."""
    progress = peer.learner.progress
    reason = "reached total_steps" if peer.learner.finished else "stopped"
    console.say(
        f"{reason}: {progress.step:,} policy steps, {progress.updates:,} updates in {progress.seconds:.0f} s"
    )
    if config.scenario.name != "none" and progress.step > 0:
        here = published_run_here(config.scenario, progress.step / progress.seconds)
        console.say(
            f"{config.scenario.name}: its {here.samples:,} policy steps would take "
            f"{here.training_time.to('hour'):.1f~P} at this run's rate, published: "
            f"{config.scenario.training_time or 'no time'}"
        )
    if progress.updates == 0:
        return
    console.say(f"checkpoint: {peer.checkpoints.path}")
    console.say("next:")
    for line in hints.after_training(peer.checkpoints.path, f"{config.localdir}/logs.tsv"):
        console.say(f"  {line}")
    if not peer.learner.finished:
        settings = hints.resume(config.savedir, config.group, config.local_name)
        console.say(f"to go on: the same command with {settings}")


def usage() -> str:
    """Return the help: examples, and the keys as `conf/config.yaml` explains them."""
    keys = (CONF / "config.yaml").read_text().split("\nhydra:")[0]
    head = "Settings, as key=value, with their defaults (those of groups such as env in conf/*/*.yaml):"
    return f"{__doc__}\n{head}\n\n{keys}"


def main() -> None:
    """Train as `sys.argv` says.

    Raises:
        SystemExit: with the exit status, if it is not 0.
    """
    arguments = sys.argv[1:]
    if wants_help(arguments):
        print(usage())
        return
    logging.raiseExceptions = False  # a message that cannot be written is no reason for a traceback
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    _exit_unless_good(guard(NAME, lambda: train(arguments)))


def _exit_unless_good(status: int) -> None:
    if status:
        raise SystemExit(status)


def train(arguments: list[str]) -> int:
    """Train what a command line describes; return the exit status."""
    sys.argv[1:] = overrides.prepare(arguments)
    several = not set(sweep.FLAGS).isdisjoint(arguments)
    overrides.check(arguments, several)
    if several:
        return train_several()
    train_one()
    return 0


def train_one() -> None:
    """Train the one run that the command line describes."""

    @hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")
    def job(composed: DictConfig) -> None:
        def one() -> None:
            run(from_omegaconf(composed))

        _exit_unless_good(guard(NAME, one, moolib.RpcError))  # before Hydra prints a traceback

    job()


def train_several() -> int:
    """Train the runs that the command line describes, and compare them; a run that fails stops no other."""
    settings: list[list[str]] = []
    outcomes: list[sweep.Outcome] = []

    @hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")
    def job(composed: DictConfig) -> None:
        launched = HydraConfig.get()
        directory = Path(launched.runtime.output_dir)
        settings.append(list(launched.overrides.task))
        output.say(f"run {launched.job.num}: {' '.join(settings[-1])}")
        try:
            sweep.name_run(composed, directory)
            outcomes.append(run(from_omegaconf(composed)))
        except (UserError, moolib.RpcError, OSError) as error:
            outcomes.append(sweep.Outcome(str(directory), "failed"))
            complain(NAME, error)
        if outcomes[-1].end == "stopped":
            raise KeyboardInterrupt

    try:
        job()
    finally:
        if outcomes:
            console = Console(highlight=False)
            console.print(sweep.table(settings[: len(outcomes)], outcomes), markup=False)
            compare = hints.plot(
                os.path.abspath(sweep.common_directory(outcomes)), "--group", sweep.compared_by(settings)
            )
            console.print(f"compare them: {compare}", markup=False, soft_wrap=True)
    return 1 if any(outcome.end != "finished" for outcome in outcomes) else 0


if __name__ == "__main__":
    main()
