"""Measure the speed of one GPU with the task, in one command of at most eight minutes.

    python -m benchmarks.gpu               # writes gpu.json, prints a table
    python -m benchmarks.gpu device=cuda:1 sizes=[4096,16384] out=second.json
    python -m benchmarks.gpu --smoke       # a smoke test: 16 robots on Warp's CPU device, under a minute

For each number of robots it measures, in policy steps per second: `physics`, MuJoCo Warp's graph alone with
standing targets; `env`, with observations, rewards and resets under random actions; `training`, all of it,
with the shares of the main thread's time and the GPU memory in use at the end. Then it trains again and
evaluates like agent.evaluate, on the CPU and with the clock stopped, until the errors are at most 0.15 and
then 0.06 m/s. A row that fails gives the reason, and the others continue.
"""

from __future__ import annotations

import copy
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import torch

from agent.cli.arguments import command, option
from agent.policies.evaluation import evaluate
from agent.storage.files import write_atomic
from agent.training.peer import check_device
from benchmarks.lone_peer import lone_peer
from envs import EnvConfig
from envs.machine import cores
from envs.schema import Bounds, Count, Positive

GOALS = (0.15, 0.06)  # m/s, root mean square over the commands of agent.evaluate
KEPT_EVERY = 5.0  # s of training between two evaluations
Row = dict[str, Any]


@dataclass(frozen=True)
class Options:
    device: str = option("cuda:0", "where robots and network live")
    sizes: tuple[Count, ...] = option(
        (4096, 1024, 2048, 8192, 16384), "numbers of robots, in order of priority"
    )
    minutes: Annotated[float, Bounds(above=0.0, high=60.0)] = option(
        7.0, "after which no further row starts and the walk ends"
    )
    walk: Count = option(4096, "robots of the run that is timed until the robots walk")
    out: str = option("gpu.json", "JSON file, rewritten after every row")
    smoke: bool = option(False, "only 16 robots on Warp's CPU device")


@dataclass(frozen=True)
class Amount:
    """Duration of the parts: s of a measurement, most s of the walk; robots per command in an evaluation."""

    seconds: Positive
    walk: Positive
    robots: Count


FULL, SMOKE = Amount(3.0, 150.0, 8), Amount(0.3, 1.0, 1)


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def rate(step: Callable[[], Any], per_call: int, seconds: float, device: torch.device) -> float:
    """Return policy steps per second of `step`, which takes `per_call` of them, after a warm-up."""
    for _ in range(5):
        step()
    synchronize(device)
    began, calls = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        for _ in range(5):
            step()
        synchronize(device)
        calls += 5
    return calls * per_call / (time.perf_counter() - began)


def memory(device: torch.device) -> float | None:
    """Return the GB of GPU memory in use, by all processes; None on a CPU."""
    if device.type != "cuda":
        return None
    free, total = torch.cuda.mem_get_info(device)
    return (total - free) / 1e9


def physics_and_env(robots: int, device: torch.device, seconds: float) -> Row:
    """Measure the rates without learning."""
    from envs.go2.warp.batch import WarpBatch  # here, because it may not be installed

    config = EnvConfig.preset("go2")
    batch = WarpBatch(config, robots, (0, 0), device)
    actions = torch.randn(robots, 12, device=device)
    env = rate(lambda: batch.step(actions), robots, seconds, device)
    batch.reset()
    batch.step(torch.zeros_like(actions))
    physics = rate(batch.simulation.step, robots, seconds, device)
    falls = batch.counters.falls / max(batch.counters.policy_steps, 1)
    return {"physics": physics, "env": env, "falls_per_step": falls, "memory_GB": memory(device)}


def settings(robots: int, device: torch.device) -> list[str]:
    """Return the overrides with which a peer trains alone with so many robots on the device."""
    quarter = max(robots // 4, 1)
    return [
        "machine=gpu",
        f"device={device}",
        f"actor_batch_size={robots}",
        f"batch_size={quarter}",
        f"virtual_batch_size={quarter}",
        "total_steps=1e12",
    ]


def train(robots: int, device: torch.device, seconds: float) -> Row:
    """Measure the rate of training, and the shares of the main thread's time."""
    with lone_peer(*settings(robots, device)) as peer:
        for _ in range(3):
            peer.train_on_one_rollout()
        synchronize(device)
        peer.timer.shares()
        began, rounds = time.perf_counter(), 0
        while time.perf_counter() - began < seconds or not rounds:
            peer.train_on_one_rollout()
            rounds += 1
        synchronize(device)
        elapsed, shares = time.perf_counter() - began, peer.timer.shares()
        steps = rounds * robots * peer.config.unroll_length
        used = memory(device)
    return {"training": steps / elapsed, "shares": shares, "memory_training_GB": used}


def walk(robots: int, device: torch.device, amount: Amount, until: float) -> Iterator[Row]:
    """Train until the last goal, for `amount.walk` s or until `until`; yield a row per evaluation."""
    reached: dict[str, float] = {}
    with lone_peer(*settings(robots, device)) as peer:
        progress, due = peer.learner.progress, KEPT_EVERY
        host = replace(peer.config.env, backend="mjbatch", device=None)
        while progress.seconds < amount.walk and time.monotonic() < until and len(reached) < len(GOALS):
            peer.train_on_one_rollout()
            if progress.seconds < min(due, amount.walk):
                continue
            due += KEPT_EVERY
            policy = copy.deepcopy(peer.learner.policy).to("cpu").eval().requires_grad_(False)
            overall = evaluate(policy, host, robots=amount.robots).overall
            error, falls = overall.velocity_error, overall.falls
            for goal in GOALS:
                if error is not None and error <= goal and not falls:
                    reached.setdefault(f"{goal:g}", progress.seconds)
            yield {
                "seconds": progress.seconds, "steps": progress.step, "error": error, "falls": falls,
                "yaw_error": overall.yaw_rate_error, "reached": dict(reached),
            }  # fmt: skip


def machine(device: torch.device) -> Row:
    """Describe the machine."""
    on_gpu = device.type == "cuda"
    return {
        "date": time.strftime("%Y-%m-%d"),
        "device": torch.cuda.get_device_name(device)
        if on_gpu
        else f"{platform.machine()}, Warp's CPU device",
        "cores": cores(),
        "cuda": torch.version.cuda if on_gpu else None,
        **{name: version(name) for name in ("torch", "mujoco", "mujoco-warp", "warp-lang")},
    }


def attempt(row: Row, measure: Callable[[], Row]) -> None:
    """Add the measurement to a row, or the reason for its failure."""
    try:
        row |= measure()
    except Exception as error:  # for example out of memory: the other rows are still useful
        row["failed"] = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def line(row: Row) -> str:
    """Format a row of the table."""
    if "failed" in row:
        return f"{row['robots']:7,}  failed: {row['failed']}"
    rates = "".join(f"{row.get(name, float('nan')):14,.0f}" for name in ("physics", "env", "training"))
    used = row.get("memory_training_GB")
    shares = ", ".join(f"{name} {share:.0%}" for name, share in row.get("shares", {}).items())
    return f"{row['robots']:7,}{rates}   {'-' if used is None else f'{used:.1f} GB':>8}   {shares}"


def run(options: Options) -> None:
    """Measure, print and write."""
    amount, sizes = (SMOKE, (16,)) if options.smoke else (FULL, options.sizes)
    name, robots = ("cpu", 16) if options.smoke else (options.device, options.walk)
    check_device("device", name)
    device, until = torch.device(name), time.monotonic() + 60 * options.minutes
    result: Row = {"machine": machine(device), "rows": [], "walk": []}

    def keep() -> None:
        write_atomic(Path(options.out), json.dumps(result, indent=1).encode())

    keep()  # a file that cannot be written fails now, before there is anything to lose
    print(", ".join(str(value) for value in result["machine"].values() if value))
    print(" robots       physics           env      training     memory   main thread", flush=True)
    for size in sizes:
        if time.monotonic() > until - amount.walk:
            print(f"{size:7,}  skipped: no time left")
            continue
        row: Row = {"robots": size}
        attempt(row, lambda size=size: physics_and_env(size, device, amount.seconds))  # type: ignore[misc]
        if "failed" not in row:
            attempt(row, lambda size=size: train(size, device, amount.seconds))  # type: ignore[misc]
        result["rows"].append(row)
        keep()
        print(line(row), flush=True)
    print(f"\n{robots:,} robots learn to walk: s of training, policy steps, m/s, rad/s, falls")
    for seen in walk(robots, device, amount, until):
        result["walk"].append(seen)
        keep()
        errors = " ".join("    -" if seen[e] is None else f"{seen[e]:.3f}" for e in ("error", "yaw_error"))
        print(f"{seen['seconds']:6.1f}  {seen['steps']:13,}  {errors}  {seen['falls']}", flush=True)
    reached = result["walk"][-1]["reached"] if result["walk"] else {}
    for goal in GOALS:
        when = reached.get(f"{goal:g}")
        print(
            f"at most {goal:g} m/s: " + ("not reached" if when is None else f"after {when:.0f} s of training")
        )
    print(f"written to {options.out}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit status."""
    return command("benchmarks.gpu", Options, run, __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
