"""Train, one process for each peer.

    python -m agent.experiment                                  # alone, until the robots walk
    python -m agent.experiment env=go2_unitree algorithm=vtrace model=lstm
    python -m agent.experiment env.randomization.push_interval=5 algorithm.optimizer.learning_rate=1e-3
    python -m agent.experiment connect=IP:4431 group=go2        # one of several peers
    python -m agent.experiment -m seed=1,2,3                    # three runs, one after the other
    python -m agent.experiment --cfg job                        # prints every setting, trains nothing

Without `connect=IP:PORT` a broker is embedded and the peer trains alone, though others may join it. Ctrl-C
or SIGTERM saves a last checkpoint. The loop is in `agent.training.peer`.
"""

from __future__ import annotations

import itertools
import logging
import math
import signal
import sys
from pathlib import Path

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console

import moolib
from agent.cli import interrupt, sweep
from agent.config import Config, ConfigError, from_omegaconf
from agent.errors import CheckpointError, LogError, TrainingError
from agent.logs.console import Status
from agent.training.metrics_row import published_run_here
from agent.training.peer import Peer, check_device

CONF = Path(__file__).resolve().parent.parent / "conf"
EXPECTED_ERRORS = (ConfigError, CheckpointError, LogError, TrainingError, moolib.RpcError, OSError)


def check_overrides(arguments: list[str], several: bool = False) -> None:
    """Stops with one line where Hydra would explain a wrong key or group over many, and before a first run
    where a later one would fail.

    Raises:
        SystemExit: with status 2.
    """
    for before, argument in itertools.pairwise(["", *arguments]):
        valued = before.startswith("-") and before not in sweep.FLAGS
        if "=" not in argument and not argument.startswith("-") and not valued:
            stop(f"{argument}: write settings as key=value")
    overrides = [argument for argument in arguments if "=" in argument]
    for flag, value in itertools.pairwise(arguments):
        if flag in ("--config-dir", "-cd"):
            overrides.append(f"hydra.searchpath=['file://{Path(value).absolute()}']")
    try:
        with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
            if not several:
                hydra.compose("config", overrides)
                return
            runs = [hydra.compose("config", choice) for choice in sweep.choices(overrides)]
            sweep.check_directories(runs)
            for composed in runs:
                sweep.name_run(composed, Path("multirun", "run"))
                from_omegaconf(composed)
    except ConfigError as error:
        stop(str(error))
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        text = " ".join(
            str(error).split("Config search path")[0].split("To append to your config")[0].split()
        )
        if text.startswith("Ambiguous value"):
            key, _, values = text.split("'")[1].partition("=")
            stop(
                f"{key}={values}: several values are several runs: add -m; a list is written {key}=[{values}]"
            )
        stop(f"{text}; the keys and groups are those of conf/config.yaml")
    finally:
        GlobalHydra.instance().clear()


def stop(message: str, status: int = 2) -> None:
    """Ends the process with one line on stderr."""
    print(f"herd: {message}", file=sys.stderr)
    raise SystemExit(status)


def start_rpc(config: Config, status: Status) -> tuple[moolib.Rpc, moolib.Broker | None]:
    """Connects to the broker, or embeds one, which lives as long as the caller holds it."""
    rpc, broker = moolib.Rpc(key_file=config.key_file), None
    address = config.connect
    if address is None:
        broker = moolib.Broker(moolib.Rpc(key_file=config.key_file))
        broker.set_name("broker")
        address = broker.listen("127.0.0.1:0")
        status.say(
            f"broker embedded; to add peers: python -m agent.experiment connect={address} "
            f"project={config.project} group={config.group}"
        )
    rpc.set_name(config.local_name)
    rpc.connect(address)
    return rpc, broker


def run(config: Config) -> sweep.Outcome:
    """Trains one peer from start to end."""
    check_device("device", config.device)
    check_device("env.device", config.env.device or "cpu")
    with Status(f"{config.project}/{config.group}", config.total_steps) as status:
        rpc, broker = start_rpc(config, status)
        peer = Peer(config, rpc, status)
        _stop_on_signals(peer)
        try:
            peer.train()
        finally:
            peer.close()
        del broker
    say_goodbye(config, peer, status)
    progress, end = peer.learner.progress, "finished" if peer.learner.finished else "stopped"
    errors = (peer.last_row.get(name, math.nan) for name in ("lin_vel_error", "yaw_rate_error"))
    return sweep.Outcome(config.savedir, end, progress.step, progress.seconds, *errors)


def _stop_on_signals(peer: Peer) -> None:
    """The first Ctrl-C or SIGTERM lets the peer finish its rollout and save; a second one ends it at once."""

    def handle(number: int, _frame: object) -> None:
        peer.stop()
        signal.signal(number, signal.SIG_DFL)

    signal.signal(signal.SIGINT, handle)
    signal.signal(signal.SIGTERM, handle)


def say_goodbye(config: Config, peer: Peer, status: Status) -> None:
    """What was reached and what to type next."""
    progress = peer.learner.progress
    reason = "reached total_steps" if peer.learner.finished else "stopped"
    status.say(
        f"{reason}: {progress.step:,} policy steps, {progress.updates:,} updates in {progress.seconds:.0f} s"
    )
    if config.scenario.name != "none" and progress.step > 0:
        here = published_run_here(config.scenario, progress.step / progress.seconds)
        status.say(
            f"{config.scenario.name}: its {here.samples:,} policy steps would take "
            f"{here.training_time.to('hour'):.1f~P} at this run's rate, published: "
            f"{config.scenario.training_time or 'no time'}"
        )
    if progress.updates == 0:
        return
    status.say(f"checkpoint: {peer.checkpoint_path}")
    status.say("next:")
    status.say(f"  python plot.py {config.localdir}/logs.tsv")
    status.say(f"  python -m agent.evaluate checkpoint={peer.checkpoint_path}")
    status.say(f"  python -m agent.play checkpoint={peer.checkpoint_path}")
    status.say(f"  python -m agent.export checkpoint={peer.checkpoint_path} out=policy.onnx")
    if not peer.learner.finished:
        status.say(f"to go on: the same command with savedir={config.savedir} local_name={config.local_name}")


def usage() -> str:
    """The help: examples, and the keys as `conf/config.yaml` explains them."""
    keys = (CONF / "config.yaml").read_text().split("\nhydra:")[0]
    where = (
        "The keys are those of conf/config.yaml, and below env., algorithm., model. those of conf/*/*.yaml:"
    )
    return f"{__doc__}\n{where}\n\n{keys}"


def main() -> None:
    interrupt.raise_again()
    if {"-h", "--help"} & set(sys.argv):
        print(usage())
        return
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    sys.argv[1:] = sweep.flags_first(sys.argv[1:])
    several = not set(sweep.FLAGS).isdisjoint(sys.argv)
    check_overrides(sys.argv[1:], several)
    try:
        train_several() if several else train_one()
    except KeyboardInterrupt:  # before there was anything to save
        stop("interrupted", status=130)


def train_one() -> None:
    """Trains the one run that the command line describes."""

    @hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")
    def job(composed: DictConfig) -> None:
        try:
            run(from_omegaconf(composed))
        except EXPECTED_ERRORS as error:
            stop(" ".join(str(error).split()), status=1 if not isinstance(error, ConfigError) else 2)

    job()


def train_several() -> None:
    """Trains the runs that the command line describes, and compares them; a run that fails stops no other."""
    overrides: list[list[str]] = []
    outcomes: list[sweep.Outcome] = []

    @hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")
    def job(composed: DictConfig) -> None:
        launched = HydraConfig.get()
        directory = Path(launched.runtime.output_dir)
        overrides.append(list(launched.overrides.task))
        print(f"run {launched.job.num}: {' '.join(overrides[-1])}", flush=True)
        try:
            sweep.name_run(composed, directory)
            outcomes.append(run(from_omegaconf(composed)))
        except EXPECTED_ERRORS as error:
            outcomes.append(sweep.Outcome(str(directory), "failed"))
            print(f"herd: {' '.join(str(error).split())}", file=sys.stderr)
        if outcomes[-1].end == "stopped":
            raise KeyboardInterrupt

    try:
        job()
    finally:
        if outcomes:
            console = Console(highlight=False)
            console.print(sweep.table(overrides[: len(outcomes)], outcomes), markup=False)
            console.print(f"compare them: python plot.py {sweep.common_directory(outcomes)} --group all")
    if any(outcome.end != "finished" for outcome in outcomes):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
