"""Measure this machine: does a robot stand, do all engines agree, and how fast do they step robots?

    python -m envs.lab                          # everything; a few minutes
    python -m envs.lab --quick                  # a smoke test; prints no speeds
    python -m envs.lab --sections C,E --png lab.png --json lab.json
    python -m envs.lab --task go2_unitree
    python -m envs.lab --sections G --device cuda:1

sections: A contact basics, B same physics, C throughput, D disturbance, E arithmetic, F auto-reset,
G GPU
"""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console

from envs.config import EnvConfig
from envs.lab import arithmetic, autoreset, contacts, disturbance, equality, figure, gpu, throughput
from envs.lab.common import Lab
from envs.machine import check_device, cores

SECTIONS: dict[str, tuple[str, Any]] = {
    "A": ("Contact basics: 2 s of standing", contacts),
    "B": ("Same physics: largest difference after 500 steps", equality),
    "C": ("Throughput", throughput),
    "D": ("Disturbance: 512 robots x 25 steps", disturbance),
    "E": ("Arithmetic of the published run", arithmetic),
    "F": ("Auto-reset", autoreset),
    "G": ("GPU", gpu),
}


class Parser(argparse.ArgumentParser):
    """Reports a mistake in one line."""

    def error(self, message: str) -> NoReturn:
        print(f"envs.lab: {message}", file=sys.stderr)
        raise SystemExit(2)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line; end the process with one line on a mistake."""
    parser = Parser("envs.lab", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smoke test: few robots, no speeds")
    parser.add_argument("--sections", default=",".join(SECTIONS), help="letters, as in A,B (default: all)")
    parser.add_argument("--task", default="go2", help="preset in conf/env (default: go2)")
    parser.add_argument("--device", help="for section G: cpu or cuda:N (default: the first GPU, if any)")
    parser.add_argument("--json", metavar="FILE", help="write the results; - prints them and no text")
    parser.add_argument("--png", metavar="FILE", help="draw section C")
    options = parser.parse_args(arguments)
    options.sections = options.sections.split(",")
    for letter in options.sections:
        if letter not in SECTIONS:
            parser.error(f"--sections {letter}: must be among {','.join(SECTIONS)}")
    if options.png and ("C" not in options.sections or options.quick):
        parser.error("--png: needs section C and no --quick")
    if options.device:
        try:
            check_device(options.device)
        except ValueError as error:
            parser.error(f"--device {options.device}: {error}")
        if not gpu.is_installed():
            parser.error(f"--device {options.device}: needs MuJoCo Warp: pip install 'herd[gpu]'")
    for path in (options.json, options.png):
        if path and path != "-" and not Path(path).absolute().parent.is_dir():
            parser.error(f"{path}: its directory does not exist")
    try:
        options.task = EnvConfig.preset(options.task)
    except ValueError as error:
        parser.error(f"--task: {error}")
    return options


def machine() -> dict[str, Any]:
    """Return versions, cores and load of this machine."""
    packages = ("mujoco", "mjbatch", "numpy")
    return {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "machine": platform.machine(),
        "cores": cores(),
        "load_average": round(os.getloadavg()[0], 2),
    }


def main(arguments: Sequence[str]) -> int:
    """Run the sections; return the exit status."""
    options = parse(arguments)
    console = Console(quiet=options.json == "-", highlight=False, soft_wrap=True)
    results: dict[str, Any] = {"machine": machine(), "task": options.task.name, "quick": options.quick}
    console.print(", ".join(f"{name} {value}" for name, value in results["machine"].items()))
    with Console(stderr=True).status("") as status:
        device = options.device or gpu.default_device()
        lab = Lab(options.task, options.quick, progress=status.update, device=device)
        for letter in sorted(options.sections):
            title, section = SECTIONS[letter]
            status.update(title)
            results[letter] = lab.results[letter] = section.measure(lab)
            console.print(f"\n{letter}. {title}", style="bold")
            if letter == "C" and options.quick:
                console.print("every engine ran")
            else:
                section.show(console, results[letter])
            if letter == "C" and not options.quick:
                console.print(figure.terminal(results["C"], console.width, console.is_terminal), markup=False)
    results["machine"]["load_average_at_the_end"] = round(os.getloadavg()[0], 2)
    console.print(f"\nload average at the end: {results['machine']['load_average_at_the_end']}")
    if options.png:
        figure.png(results["C"], Path(options.png))
    if options.json == "-":
        print(json.dumps(results))
    elif options.json:
        Path(options.json).write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
