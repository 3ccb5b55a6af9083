"""Section E: the size of the published Go2 training run, and the time that its physics would take here."""

from typing import Any

from rich.console import Console

from envs.lab.common import Lab
from envs.lab.throughput import LOOP
from envs.vecenv import samples_per_update

ROBOTS, STEPS_PER_UPDATE, UPDATES, DECIMATION = 4096, 24, 1500, 4  # unitree_rl_gym's configuration of the Go2
POLICY_STEP = 0.02  # s: 4 physics steps of 5 ms


def measure(lab: Lab) -> dict[str, Any]:
    """Return sizes of the run and, after section C, hours of physics at the best rate per kind of states."""
    samples = samples_per_update(ROBOTS, STEPS_PER_UPDATE)
    physics_steps = samples * UPDATES * DECIMATION
    hours: dict[tuple[str, str], float] = {}
    if not lab.quick:
        for row in lab.results.get("C", []):
            if row["engine"] != LOOP:
                key = row["state"], row["engine"]
                hours[key] = min(hours.get(key, float("inf")), physics_steps / row["per_second"] / 3600)
    return {
        "samples_per_update": samples,
        "policy_steps": samples * UPDATES,
        "physics_steps": physics_steps,
        "seconds_per_robot_and_update": STEPS_PER_UPDATE * POLICY_STEP,
        "hours": [{"state": s, "engine": e, "hours": h} for (s, e), h in hours.items()],
    }


def show(console: Console, result: dict[str, Any]) -> None:
    """Print the section."""
    console.print(
        f"{ROBOTS:,} robots x {STEPS_PER_UPDATE} steps x {UPDATES:,} updates, x {DECIMATION} physics steps: "
        f"{result['samples_per_update']:,} samples per update,\n"
        f"{result['policy_steps']:,} policy steps, {result['physics_steps']:,} physics steps; "
        f"each robot lives {result['seconds_per_robot_and_update']:.2f} s per update"
    )
    for row in result["hours"]:
        console.print(
            f"at the best rate of {row['engine']}, {row['state']} robots: {row['hours']:.1f} h of physics"
        )
