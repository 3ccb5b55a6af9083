"""Check whether this machine can train, before it is tried.

    python -m agent.doctor                        # one line for each subject: what is good, what to do
    python -m agent.doctor connect=IP:4431        # also asks the broker, as a peer would
    python -m agent.doctor savedir=/data/runs --json

connect   address of a broker that must answer
key_file  the key that it wants
savedir   directory in which runs shall be written; default: this one
port      on which a broker shall be started here; default: 4431
json      print JSON instead: a list of {name, status, text, todo}

good: works. note: works, but slower or without an optional feature. bad: has to be repaired before training;
the exit status is then 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from agent.cli import doctor_checks, interrupt
from agent.cli.doctor_checks import Finding

COLORS = {"good": "\033[32m", "note": "\033[33m", "bad": "\033[31m"}


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """The options, as `key=value` or `--key value`; not by `agent.cli`, which needs what is checked.

    Raises:
        ValueError: an unknown key, or a value that is not allowed; one line.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--connect")
    parser.add_argument("--key_file")
    parser.add_argument("--savedir", type=Path, default=Path())
    parser.add_argument("--port", type=int, default=doctor_checks.BROKER_PORT)
    parser.add_argument("--json", action="store_true")
    try:
        options, unknown = parser.parse_known_args(
            [one if one.startswith("-") else f"--{one}" for one in arguments]
        )
    except argparse.ArgumentError as error:
        raise ValueError(str(error)) from None
    if unknown:
        raise ValueError(f"{unknown[0].removeprefix('--')}: unknown; known are {', '.join(vars(options))}")
    return options


def examine(options: argparse.Namespace) -> Iterator[Finding]:
    """Every finding, as soon as it is there."""
    yield from doctor_checks.check_python()
    yield from doctor_checks.check_packages()
    yield from doctor_checks.check_extras()
    yield from doctor_checks.check_physics()
    yield from doctor_checks.check_cores()
    yield from doctor_checks.check_threads()
    yield from doctor_checks.check_bf16()
    yield from doctor_checks.check_compiler()
    yield from doctor_checks.check_rendering()
    yield from doctor_checks.check_directory(options.savedir.absolute())
    yield from doctor_checks.check_memory()
    yield from doctor_checks.check_port(options.port)
    if options.connect:
        yield from doctor_checks.check_broker(options.connect, options.key_file)


def describe(finding: Finding, color: bool) -> str:
    """A line about a finding."""
    status = f"{finding.status:<4}"
    if color:
        status = f"{COLORS[finding.status]}{status}\033[0m"
    todo = f" → {finding.todo}" if finding.todo else ""
    return f"{status}  {finding.name:<9}  {finding.text}{todo}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status: 0, 1 if something is bad, 2 after a wrong option."""
    interrupt.raise_again()
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if {"-h", "--help"} & set(arguments):
        print(__doc__)
        return 0
    try:
        options = parse_arguments(arguments)
    except ValueError as error:
        print(f"agent.doctor: {error}", file=sys.stderr)
        return 2
    findings = []
    try:
        for finding in examine(options):
            findings.append(finding)
            if not options.json:
                print(describe(finding, sys.stdout.isatty()), flush=True)
    except KeyboardInterrupt:
        return 130
    bad = [finding.name for finding in findings if finding.status == "bad"]
    if options.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    elif bad:
        print(f"\nto be repaired: {', '.join(bad)}")
    else:
        print("\nready: python -m agent.experiment")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
