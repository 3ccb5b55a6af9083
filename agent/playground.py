"""Write the Go2 as MJCF with the names that MuJoCo Playground looks for.

    python -m agent.playground                          # go2_playground.xml, the robot of env=go2
    python -m agent.playground task=go2_unitree out=PATH

docs/gpu.md says how to use the file there, and how policies go from one to the other.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.cli.arguments import command, option
from agent.errors import ConfigError
from agent.storage.files import write_atomic
from envs import EnvConfig
from envs.go2.playground import to_mjcf


@dataclass(frozen=True)
class Options:
    task: str = option("go2", "preset of conf/env whose physics and PD gains the robot has")
    out: str = option("go2_playground.xml", "file to write")


def run(options: Options) -> None:
    """Write the file."""
    try:
        config = EnvConfig.preset(options.task)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    write_atomic(Path(options.out), to_mjcf(config).encode())
    print(f"{options.out}: the Go2 of env={options.task}, for MuJoCo Playground")


def main(arguments: Sequence[str] | None = None) -> int:
    return command("agent.playground", Options, run, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
