"""The lab: its smoke test, the numbers that are known, and what it says about mistakes."""

import json

import numpy as np
import pytest

from envs.go2.robot import constants
from envs.lab.__main__ import main


@pytest.fixture(scope="module")
def quick() -> dict:
    """The results that ``--quick --json -`` prints."""
    with pytest.MonkeyPatch.context() as patch:
        lines: list[str] = []
        patch.setattr("builtins.print", lines.append)
        assert main(["--quick", "--json", "-"]) == 0
    return json.loads("\n".join(lines))


def test_contacts_carry_the_weight(quick):
    for row in quick["A"]:
        assert set(row["normal_forces"]) == set(constants.LEGS)
        assert row["total_force"] == pytest.approx(row["weight"], rel=0.01)
        assert row["weight"] == pytest.approx(15.206 * 9.81, rel=1e-3)
    assert quick["A"][0]["height"] == pytest.approx(0.262, abs=0.006)


def test_every_engine_is_the_same_physics(quick):
    assert [row["simulation"] for row in quick["B"]] == ["lesson", "task"]
    for row in quick["B"]:
        assert row["differences"] == {"rollout": 0.0, "mjbatch": 0.0, "herd": 0.0}


def test_landing_costs_more_solver_iterations(quick):
    iterations = {(row["simulation"], row["start"]): row["solver_iterations"] for row in quick["D"]}
    assert iterations["lesson", "released"] > 3 * iterations["lesson", "settled"]
    assert iterations["task", "released"] == 10.0  # PGS takes all it may


def test_the_arithmetic_of_the_published_run(quick):
    sizes = {key: value for key, value in quick["E"].items() if key != "hours"}
    assert sizes == {
        "samples_per_update": 98_304,
        "policy_steps": 147_456_000,
        "physics_steps": 589_824_000,
        "seconds_per_robot_and_update": 0.48,
    }


def test_kicked_robots_are_reset_in_the_same_step(quick):
    counters, result = quick["F"]["counters"], quick["F"]
    assert (counters["policy_steps"], counters["physics_steps"]) == (4800, 19_200)
    assert counters["simulated_seconds"] == pytest.approx(38.4)
    assert counters["falls"] > 5 and counters["timeouts"] > 5
    assert result["lowest_restart"] == result["highest_restart"] == np.float32(constants.KEYFRAME_HEIGHT)


def test_the_smoke_test_prints_no_speeds(capsys):
    assert main(["--quick", "--sections", "C"]) == 0
    shown = capsys.readouterr().out
    assert "every engine ran" in shown and "per second" not in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sections", "A,X"], "--sections X: must be among A,B,C,D,E,F,G"),
        (["--task", "spot"], "--task: env='spot': must be one of go2, go2_unitree"),
        (["--device", "meta"], "--device meta: must be cpu, or cuda:N of a GPU that torch can use"),
        (["--png", "lab.png", "--sections", "A"], "--png: needs section C and no --quick"),
        (["--json", "nowhere/lab.json"], "nowhere/lab.json: its directory does not exist"),
        (["A"], "unrecognized arguments: A"),
    ],
)
def test_a_mistake_is_one_line(arguments, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert capsys.readouterr().err == f"envs.lab: {message}\n"
