"""Start many peers on a Slurm cluster.

    python -m agent.launch connect=10.0.0.1:4431 peers=16 settings="group=go2 env=go2"
    python -m agent.launch connect=10.0.0.1:4431 peers=16 cpus=8 time=4:00:00 --dry     # print the script

The broker must answer already. The script is NAME.sbatch in the working directory, where the peers run, too.
Slurm hands HERD_KEY_FILE, the path of a key file, on to the peers; the file must be readable on the nodes.
"""

from __future__ import annotations

import ipaddress
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import moolib
from agent.cli import hints, overrides, slurm
from agent.cli.arguments import command, option
from agent.config import KEY_FILE_VARIABLE, Count
from agent.errors import ConfigError
from moolib.broker import ask_status
from moolib.transport.address import AddressError
from moolib.transport.address import parse as parse_address


@dataclass(frozen=True)
class Options:
    connect: str | None = option(None, "the broker, as IP:PORT that the nodes can reach")
    peers: Count = option(4, "tasks of the job array, one for each peer")
    settings: str = option("", "for agent.experiment, in quotes")
    cpus: Count = option(4, "cores of each peer, and threads of its physics and of its learner")
    memory: str = option("4G", "of each peer")
    time: str = option(
        "24:00:00", "limit after which Slurm ends a peer; a minute before, it is told to leave"
    )
    partition: str | None = option(None, "of the cluster; without it, the cluster's default")
    name: str = option("herd", "of the job and its script")
    dry: bool = option(False, "print the script instead of submitting it")


def script(options: Options, directory: Path, python: str) -> str:
    """Return the Slurm script.

    Args:
        options: The options of the command.
        directory: Where the peers run; shared by the nodes.
        python: The interpreter that runs them.
    """
    peer = [
        *(python, "-m", "agent.experiment", f"connect={options.connect}"),
        *(f"physics_threads={options.cpus}", f"learner_threads={options.cpus}"),
        *shlex.split(options.settings),
    ]
    job = slurm.JobArray(
        options.name, options.peers, options.cpus, options.memory, options.time, options.partition
    )
    return slurm.script(job, directory, peer)


def is_local(host: str) -> bool:
    """Return whether an address or a name is that of the loopback interface."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_broker(address: str) -> None:
    """Ask the broker for its status.

    Raises:
        ConfigError: no broker answers, or the address cannot be that of another machine.
    """
    try:
        host = parse_address(address).host
    except AddressError as error:
        raise ConfigError(f"connect={address}: {error.reason}") from None
    if is_local(host):
        raise ConfigError(f"connect={address}: no other machine can reach this address")
    try:
        rpc = moolib.Rpc(key_file=os.environ.get(KEY_FILE_VARIABLE))
        ask_status(rpc, address)
    except moolib.RpcError as error:
        start = hints.module("moolib.broker")
        raise ConfigError(f"connect={address}: {error}; start one with: {start}") from None


def run(options: Options) -> None:
    """Check, and submit or print.

    Raises:
        ConfigError: an option is wrong, the broker does not answer, or Slurm refuses.
    """
    if options.connect is None:
        raise ConfigError("connect: must be the broker's IP:PORT, as the nodes reach it")
    overrides.check(shlex.split(options.settings))
    check_broker(options.connect)
    text = script(options, Path.cwd(), sys.executable)
    print(text.rstrip() if options.dry else slurm.submit(Path(f"{options.name}.sbatch"), text))


def main(arguments: Sequence[str] | None = None) -> int:
    return command("agent.launch", Options, run, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
