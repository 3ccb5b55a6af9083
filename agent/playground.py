"""Write the Go2 as MJCF with the names that MuJoCo Playground looks for.

    python -m agent.playground                          # go2_playground.xml, the robot of env=go2
    python -m agent.playground task=go2_unitree out=PATH

task  preset of conf/env whose physics and PD gains it has; default: go2
out   file to write; default: go2_playground.xml

docs/gpu.md says what to do with it there, and how policies go from one to the other.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.cli import arguments
from agent.errors import ConfigError
from agent.storage.files import write_atomic
from envs import EnvConfig
from envs.go2.playground import mjcf


@dataclass(frozen=True)
class Options:
    task: str = "go2"
    out: str = "go2_playground.xml"


def run(options: Options) -> None:
    """Writes the file."""
    try:
        config = EnvConfig.preset(options.task)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    write_atomic(Path(options.out), mjcf(config).encode())
    print(f"{options.out}: the Go2 of env={options.task}, for MuJoCo Playground")


def main(argv: Sequence[str] | None = None) -> int:
    return arguments.command(
        "agent.playground", Options, run, __doc__, sys.argv[1:] if argv is None else argv
    )


if __name__ == "__main__":
    sys.exit(main())
