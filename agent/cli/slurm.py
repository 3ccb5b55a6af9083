"""Job arrays of a Slurm cluster."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.errors import ConfigError
from agent.storage.files import write_atomic

LEAVE_TIME = 60  # s before the time limit at which a peer is told to leave: for a rollout and a checkpoint


@dataclass(frozen=True)
class JobArray:
    """A job array.

    Attributes:
        name: Of the job.
        tasks: How many.
        cpus: Cores of each task.
        memory: Of each task, in Slurm's words: `4G`.
        time: Limit, in Slurm's words: `24:00:00`.
        partition: Of the cluster; None for its default.
    """

    name: str
    tasks: int
    cpus: int
    memory: str
    time: str
    partition: str | None = None


def script(job: JobArray, directory: Path, peer: Sequence[str]) -> str:
    """Return the script whose tasks each run one peer.

    Args:
        job: The job array.
        directory: Where the peers run; shared by the nodes.
        peer: The command of a peer; a `local_name` from the task's number is added.
    """
    directives = {
        "job-name": job.name,
        "array": f"0-{job.tasks - 1}",
        "ntasks": 1,
        "cpus-per-task": job.cpus,
        "mem": job.memory,
        "time": job.time,
        "signal": f"B:TERM@{LEAVE_TIME}",
        "output": f"{job.name}-%A_%a.out",
    }
    if job.partition:
        directives["partition"] = job.partition
    return "\n".join(
        [
            "#!/bin/bash",
            *(f"#SBATCH --{key}={value}" for key, value in directives.items()),
            f"cd {shlex.quote(str(directory))} || exit 1",
            f'exec {shlex.join(peer)} local_name="$(hostname -s)-$SLURM_ARRAY_JOB_ID-$SLURM_ARRAY_TASK_ID"',
            "",
        ]
    )


def submit(path: Path, text: str) -> str:
    """Write a script and submit it; return Slurm's answer.

    Raises:
        ConfigError: Slurm is not installed, or refuses the job.
        OSError: the script cannot be written.
    """
    write_atomic(path, text.encode())
    try:
        result = subprocess.run(["sbatch", str(path)], capture_output=True, text=True)
    except FileNotFoundError:
        raise ConfigError(f"sbatch is not installed here; the script is in {path}") from None
    if result.returncode:
        raise ConfigError(f"sbatch refuses {path}: {' '.join(result.stderr.split())}")
    return result.stdout.strip()
