"""How long until the robot walks, and how well: trains from the plain command and evaluates on the way.

    python -m benchmarks.walk seeds=1,2,3 seconds=180 [key=value ...]

For each seed it starts `python -m agent.experiment` with further overrides as given, in a scratch
directory, with checkpoints kept every few seconds, and stops it after `seconds`, counted from the start of
the process. Only then are the checkpoints evaluated, so that evaluating does not slow down training. The
clock of a checkpoint is the time at which it was complete. With `peers=2`, two peers train through a
broker. Errors are those of `agent.evaluate`: root mean squares over nine fixed commands.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from agent.policies import loading
from agent.policies.evaluation import evaluate

KEPT_EVERY = 10.0  # s of training between two checkpoints
ROBOTS = 8  # for each command


def start(module: str, directory: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments], cwd=directory, stdout=subprocess.PIPE, text=True
    )


def train(
    seed: int, seconds: float, peers: int, overrides: list[str], directory: Path
) -> list[tuple[float, Path]]:
    """Trains and returns (seconds since the start, checkpoint) of each checkpoint that was kept."""
    settings = [f"seed={seed}", "group=walk", f"checkpoint_history_interval={KEPT_EVERY}", *overrides]
    processes, began = [], time.time()
    if peers > 1:
        broker = start("moolib.broker", directory, "127.0.0.1:0")
        assert broker.stdout is not None
        settings.append(f"connect={broker.stdout.readline().split()[-1]}")
        processes.append(broker)
    trainers = [start("agent.experiment", directory, *settings) for _ in range(peers)]
    for process in trainers:
        try:
            process.communicate(timeout=max(began + seconds - time.time(), 0.0))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
    for process in trainers:
        process.communicate()
    for process in processes:
        process.terminate()
        process.communicate()
    saved = (directory / "outputs" / "herd" / "walk").glob("checkpoint*.safetensors")
    return sorted((os.path.getmtime(path) - began, path) for path in saved)


def measure(path: Path) -> dict[str, float]:
    policy = loading.load(path)
    report = evaluate(policy.policy, policy.env, robots=ROBOTS)
    whole = report.overall
    standing = report.per_command[-1]
    return {
        "steps": policy.step,
        "error": whole.velocity_error or 0.0,
        "yaw_error": whole.yaw_rate_error or 0.0,
        "falls": whole.falls,
        "clearance_cm": 100 * min((c or 0.0) for c in whole.clearance),
        "trot": whole.trot or 0.0,
        "slip": whole.slip or 0.0,
        "standing_action_rate": standing.action_rate or 0.0,
    }


def main(arguments: list[str]) -> None:
    given = dict(argument.split("=", 1) for argument in arguments)
    seeds = [int(seed) for seed in given.pop("seeds", "1").split(",")]
    seconds, peers = float(given.pop("seconds", "180")), int(given.pop("peers", "1"))
    overrides = [f"{key}={value}" for key, value in given.items()]
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {' '.join(overrides) or 'defaults'}")
    print("seed    s   M steps   m/s  rad/s  falls  clearance cm  trot  slip m/s  standing rad", flush=True)
    for seed in seeds:
        with tempfile.TemporaryDirectory() as directory:
            for clock, path in train(seed, seconds, peers, overrides, Path(directory)):
                m = measure(path)
                print(
                    f"{seed:4} {clock:4.0f} {m['steps'] / 1e6:9.2f} {m['error']:5.3f} {m['yaw_error']:6.3f} "
                    f"{m['falls']:6.0f} {m['clearance_cm']:13.1f} {m['trot']:5.2f} {m['slip']:9.2f} "
                    f"{m['standing_action_rate']:13.4f}",
                    flush=True,
                )


if __name__ == "__main__":
    main(sys.argv[1:])
