"""Compare the speed of the environment with that of the bare physics, on states that training visits.

    python -m benchmarks.env
    python -m benchmarks.env env=go2_unitree robots=256

Robots get random targets, so that they stumble and fall. In one run, turn by turn and on exactly the same
states and controls, the benchmark measures

* bare physics: `mjbatch` alone, one batch after the other, with every thread;
* the environment: the pool with its batches in flight, with observations, rewards and resets.

It prints both rates in policy steps per second, their ratio, and the time of one step of a batch, split into
physics and terms. On a shared machine, look at the ratio of processor time instead.
"""

import sys
import time
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from agent.cli.arguments import command, option
from envs import EnvConfig, RobotPool, make_pool
from envs.go2.mjbatch.simulation import Simulation
from envs.go2.robot import constants, mjcf
from envs.schema import Bounds, Count

WARMUP = 50  # policy steps, after which falls and resets have mixed the robots' states
Saved = list[dict[str, np.ndarray]]


@dataclass(frozen=True)
class Options:
    env: str = option("go2", "preset in conf/env")
    robots: Count = option(512, "in a batch")
    batches: Count = option(2, "in flight")
    steps: Count = option(50, "policy steps of a turn")
    turns: Count = option(5, "of each of the two")
    threads: Annotated[int, Bounds(low=0)] = option(0, "of the physics for each batch; 0: all cores")


def run_pool(pool: RobotPool, actions: np.ndarray) -> np.ndarray:
    """Step all batches through `actions` [steps, batches, B, 12]; return stamps [steps, batches, 3], s."""
    batches = range(actions.shape[1])
    stamps = np.empty((*actions.shape[:2], 3))
    futures = [pool.step(i, actions[0, i]) for i in batches]
    for t in range(len(actions)):
        for i in batches:
            stamps[t, i] = futures[i].result().stamps
            if t + 1 < len(actions):
                futures[i] = pool.step(i, actions[t + 1, i])
    return stamps


def record(pool: RobotPool, actions: np.ndarray) -> np.ndarray:
    """Return the physics state before each step of `actions` [steps, batches, B, nstate]."""
    rows = []
    for step in actions:
        rows.append([pool.state_dict(i)["rows"] for i in range(len(step))])
        for i, action in enumerate(step):
            pool.step(i, action).result()
    return np.array(rows)


def run_bare(simulations: list[Simulation], rows: np.ndarray, targets: np.ndarray, decimation: int) -> None:
    """Step the recorded states with the recorded targets and nothing else."""
    controls = [simulation.batch.bind("ctrl") for simulation in simulations]
    for states, wanted in zip(rows, targets, strict=True):
        for i, simulation in enumerate(simulations):
            simulation.rows[:] = states[i]
            controls[i][:] = wanted[i]
            simulation.batch.step(nstep=decimation)


def bare_simulations(config: EnvConfig, saved: Saved, threads: int) -> list[Simulation]:
    """Return simulations of the pool's robots, with the friction and masses of each."""
    m = mjcf.build_task_model(config)
    simulations = []
    for batch in saved:
        simulation = Simulation(m, len(batch["rows"]), threads)
        for name in (key.removeprefix("model.") for key in batch if key.startswith("model.")):
            simulation.batch.expand(name)[:] = batch[f"model.{name}"]
        simulations.append(simulation)
    return simulations


def clocks() -> np.ndarray:
    """Return the wall clock and the processor time of all threads, s."""
    return np.array([time.perf_counter(), time.process_time()])


def run(options: Options) -> None:
    """Measure and print."""
    config = EnvConfig.preset(options.env)
    pool = make_pool(config, options.robots, options.batches, seed=0, num_threads=options.threads)
    shape = (WARMUP + options.steps, options.batches, options.robots, pool.action_dim)
    actions = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    run_pool(pool, actions[:WARMUP])
    actions = actions[WARMUP:]
    saved = [pool.state_dict(i) for i in range(options.batches)]
    falls = pool.counters.falls
    rows = record(pool, actions)
    falls = pool.counters.falls - falls
    targets = constants.DEFAULT_JOINT_POS + config.control.action_scale * actions.astype(np.float64)
    simulations = bare_simulations(config, saved, options.threads)

    samples = options.steps * options.batches * options.robots
    env_clocks, bare_clocks, stamps = [], [], []
    for _ in range(options.turns):
        for i, state in enumerate(saved):
            pool.load_state_dict(i, state)
        began = clocks()
        stamps.append(run_pool(pool, actions))
        env_clocks.append(clocks() - began)
        began = clocks()
        run_bare(simulations, rows, targets, pool.decimation)
        bare_clocks.append(clocks() - began)
    pool.close()

    physics, terms = (1e3 * np.diff(np.array(stamps), axis=-1)).mean(axis=(0, 1, 2))
    env, bare = samples / np.median(env_clocks, axis=0), samples / np.median(bare_clocks, axis=0)
    ratios = np.divide(bare_clocks, env_clocks)
    share = f"{100 * falls / samples:.1f} % of the steps end in a fall"
    print(f"{options.env}: {options.batches} batches of {options.robots} robots, {share}")
    print("policy steps per      second    processor second")
    print(
        f"bare physics        {bare[0]:8,.0f}            {bare[1]:8,.0f}  (x {pool.decimation} physics steps)"
    )
    print(f"environment         {env[0]:8,.0f}            {env[1]:8,.0f}")
    print(f"ratio               {np.median(ratios[:, 0]):8.3f}            {np.median(ratios[:, 1]):8.3f}")
    for name, column in zip(("seconds", "processor seconds"), ratios.T, strict=True):
        print(f"ratio of {name}, turn by turn: {', '.join(f'{ratio:.3f}' for ratio in column)}")
    print(f"one step of one batch in flight: physics {physics:.2f} ms, terms {terms:.2f} ms")


if __name__ == "__main__":
    sys.exit(command("benchmarks.env", Options, run, __doc__, sys.argv[1:]))
