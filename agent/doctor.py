"""Check, before training, that this machine can train.

    python -m agent.doctor                        # one line for each subject: what is good, what to do
    python -m agent.doctor connect=IP:4431        # also asks the broker, as a peer would
    python -m agent.doctor savedir=/data/runs --json

good: works. note: works, but slower or without an optional feature. bad: must be repaired before training,
and the exit status is 1.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from agent.cli import doctor_checks, hints
from agent.cli.arguments import command, option
from agent.cli.doctor_checks import Finding

COLORS = {"good": "\033[32m", "note": "\033[33m", "bad": "\033[31m"}


@dataclass(frozen=True)
class Options:
    connect: str | None = option(None, "address of a broker that must answer")
    key_file: str | None = option(None, "file with the key that the broker wants")
    savedir: str = option(".", "directory in which runs will be written")
    port: Annotated[int, range(65536)] = option(
        doctor_checks.BROKER_PORT, "port on which a broker will be started here"
    )
    json: bool = option(False, "print JSON instead: a list of {name, status, text, todo}")


def examine(options: Options) -> Iterator[Finding]:
    """Yield every finding as soon as it is made."""
    yield from doctor_checks.check_python()
    yield from doctor_checks.check_packages()
    yield from doctor_checks.check_extras()
    yield from doctor_checks.check_physics()
    yield from doctor_checks.check_cores()
    yield from doctor_checks.check_threads()
    yield from doctor_checks.check_bf16()
    yield from doctor_checks.check_compiler()
    yield from doctor_checks.check_rendering()
    yield from doctor_checks.check_directory(Path(options.savedir).absolute())
    yield from doctor_checks.check_memory()
    yield from doctor_checks.check_port(options.port)
    if options.connect:
        yield from doctor_checks.check_broker(options.connect, options.key_file)


def describe(finding: Finding, color: bool) -> str:
    """Return a line about a finding."""
    status = f"{finding.status:<4}"
    if color:
        status = f"{COLORS[finding.status]}{status}\033[0m"
    todo = f" → {finding.todo}" if finding.todo else ""
    return f"{status}  {finding.name:<9}  {finding.text}{todo}"


def run(options: Options) -> int:
    """Examine and print; return 1 if something is bad."""
    findings = []
    for finding in examine(options):
        findings.append(finding)
        if not options.json:
            print(describe(finding, sys.stdout.isatty()), flush=True)
    bad = [finding.name for finding in findings if finding.status == "bad"]
    if options.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    elif bad:
        print(f"\nto be repaired: {', '.join(bad)}")
    else:
        print(f"\nready: {hints.module('agent.experiment')}")
    return 1 if bad else 0


def main(arguments: Sequence[str] | None = None) -> int:
    return command("agent.doctor", Options, run, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
