"""Start many peers on a Slurm cluster.

    python -m agent.launch connect=10.0.0.1:4431 peers=16 settings="group=go2 env=go2"
    python -m agent.launch connect=10.0.0.1:4431 peers=16 cpus=8 time=4:00:00 --dry     # print the script

connect     the broker, as IP:PORT that the nodes can reach; it must answer now
peers       tasks of the job array, one for each peer; default: 4
settings    for agent.experiment, in quotes
cpus        cores of each peer; its physics and its learner have so many threads; default: 4
memory      of each peer; default: 4G
time        after which Slurm ends a peer; a minute before, it is told to leave; default: 24:00:00
partition   of the cluster; default: the cluster's
name        of the job; the script is NAME.sbatch in this directory, where the peers run, too; default: herd
dry         print the script instead of submitting it

The path of a key file is taken from HERD_KEY_FILE, which Slurm hands on to the peers; the file must be
readable on the nodes.
"""

from __future__ import annotations

import ipaddress
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import moolib
from agent.cli.arguments import command
from agent.config import KEY_FILE_VARIABLE, ConfigError, Count
from agent.experiment import check_overrides
from agent.storage.files import write_atomic
from moolib.broker import ask_status

LEAVE_TIME = 60  # s before the time limit at which a peer is told to leave: for a rollout and a checkpoint


@dataclass(frozen=True)
class Options:
    connect: str | None = None
    peers: Count = 4
    settings: str = ""
    cpus: Count = 4
    memory: str = "4G"
    time: str = "24:00:00"
    partition: str | None = None
    name: str = "herd"
    dry: bool = False


def script(options: Options, directory: Path, python: str) -> str:
    """The Slurm script.

    Args:
        options: What the user wants.
        directory: Where the peers run; shared by the nodes.
        python: The interpreter that runs them.
    """
    directives = {
        "job-name": options.name,
        "array": f"0-{options.peers - 1}",
        "ntasks": 1,
        "cpus-per-task": options.cpus,
        "mem": options.memory,
        "time": options.time,
        "signal": f"B:TERM@{LEAVE_TIME}",
        "output": f"{options.name}-%A_%a.out",
    }
    if options.partition:
        directives["partition"] = options.partition
    peer = [
        *(python, "-m", "agent.experiment", f"connect={options.connect}"),
        *(f"physics_threads={options.cpus}", f"learner_threads={options.cpus}"),
        *shlex.split(options.settings),
    ]
    return "\n".join(
        [
            "#!/bin/bash",
            *(f"#SBATCH --{key}={value}" for key, value in directives.items()),
            f"cd {shlex.quote(str(directory))} || exit 1",
            f'exec {shlex.join(peer)} local_name="$(hostname -s)-$SLURM_ARRAY_JOB_ID-$SLURM_ARRAY_TASK_ID"',
            "",
        ]
    )


def is_local(host: str) -> bool:
    """Whether an address or a name is the loopback's."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_broker(address: str) -> None:
    """Asks the broker for its status.

    Raises:
        ConfigError: nobody answers, or the address cannot be that of another machine.
    """
    if is_local(address.rpartition(":")[0].removeprefix("tcp://").strip("[]")):
        raise ConfigError(f"connect={address}: no other machine can reach this address")
    try:
        rpc = moolib.Rpc(key_file=os.environ.get(KEY_FILE_VARIABLE))
        ask_status(rpc, address)
    except moolib.RpcError as error:
        raise ConfigError(f"connect={address}: {error}; start one with: python -m moolib.broker") from None


def run(options: Options) -> None:
    """Checks, and submits or prints.

    Raises:
        ConfigError: an option is wrong, the broker does not answer, or Slurm refuses.
    """
    if options.connect is None:
        raise ConfigError("connect: must be the broker's IP:PORT, as the nodes reach it")
    check_overrides(shlex.split(options.settings))
    check_broker(options.connect)
    text = script(options, Path.cwd(), sys.executable)
    if options.dry:
        print(text, end="")
        return
    path = Path(f"{options.name}.sbatch")
    write_atomic(path, text.encode())
    try:
        result = subprocess.run(["sbatch", str(path)], capture_output=True, text=True)
    except FileNotFoundError:
        raise ConfigError(f"sbatch is not installed here; the script is in {path}") from None
    if result.returncode:
        raise ConfigError(f"sbatch refuses {path}: {' '.join(result.stderr.split())}")
    print(result.stdout.strip())


def main(argv: Sequence[str] | None = None) -> int:
    return command("agent.launch", Options, run, __doc__, sys.argv[1:] if argv is None else argv)


if __name__ == "__main__":
    sys.exit(main())
