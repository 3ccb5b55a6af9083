"""The lab: its smoke test, the numbers that are known, and what it says about mistakes."""

import json
import math

import mujoco
import numpy as np
import pytest
from rich.console import Console

from envs import EnvConfig
from envs.go2.robot import constants, mjcf
from envs.lab import arithmetic, card, common, figure, throughput
from envs.lab.__main__ import main
from envs.lab.common import Lab, Work
from envs.lab.engines import ENGINES, PythonLoop


@pytest.fixture(scope="module")
def quick() -> dict:
    """What ``--quick --json -`` prints."""
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


def row(engine: str, state: str, robots: int, threads: int, per_second: float) -> dict:
    kind = dict(engine=engine, state=state, robots=robots, threads=threads)
    return kind | {"per_second": per_second, "per_processor_second": per_second / threads}


ROWS = [
    row(throughput.LOOP, "standing", 1, 1, 7e4),
    row(throughput.LOOP, "training", 1, 1, 6e4),
    *(row("herd", state, n, t, 1e4 * n * t) for state in throughput.STATES for n in (1, 8) for t in (1, 2)),
]


def test_hours_are_physics_steps_over_the_best_rate():
    lab = Lab(EnvConfig.preset("go2"), quick=False, results={"C": ROWS})
    hours = arithmetic.measure(lab)["hours"]
    expected = 589_824_000 / 160_000 / 3600  # 8 robots on 2 threads; the Python loop does not count
    assert [(r["state"], r["engine"]) for r in hours] == [("standing", "herd"), ("training", "herd")]
    assert all(math.isclose(r["hours"], expected) for r in hours)


def test_steps_per_second_are_physics_steps_over_both_clocks(monkeypatch):
    times = iter(np.array([[10.0, 1.0], [12.0, 5.0]]))
    monkeypatch.setattr(throughput, "clocks", lambda: next(times))
    config = EnvConfig.preset("go2")
    work = common.collect(config, 0.1, warmup=0, robots=2, steps=3)
    rate = throughput.steps_per_second(PythonLoop(config, 2), work, config.physics.decimation)
    np.testing.assert_allclose(rate, [2 * 3 * 2 / 2.0, 2 * 3 * 2 / 4.0])


@pytest.mark.parametrize("name", ENGINES)
def test_a_timed_run_takes_the_steps_it_was_given(name):
    """Each engine ends where MuJoCo ends: from the last state of the work, one policy step later."""
    config = common.simulations(EnvConfig.preset("go2"))["task"]
    visited = common.collect(config, 0.3, warmup=5, robots=3, steps=2)
    engine = ENGINES[name](config, 3, 2)
    engine.prepare(visited)
    engine.run()
    if name == "rollout":
        reached = engine.state[:, -1, 1:20]
    else:
        rows = engine.rows if name == "mjbatch" else engine.batch.state_dict()["rows"]
        reached = rows[:, 1:20]
    loop = PythonLoop(config, 3)
    loop.prepare(visited)
    loop.run()
    np.testing.assert_array_equal(reached, [data.qpos for data in loop.datas])


def test_a_card_starts_from_the_states_it_was_given():
    """One policy step of MuJoCo Warp, on its CPU device, ends where MuJoCo ends."""
    pytest.importorskip("mujoco_warp", reason="MuJoCo Warp is not installed: pip install 'herd[gpu]'")
    config = common.simulations(EnvConfig.preset("go2"))["task"]
    visited = common.collect(config, 0.3, warmup=5, robots=3, steps=1)
    engine, loop = card.Card(config, 3, "cpu"), PythonLoop(config, 3)
    loop.model.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON  # as Warp's, which has no PGS
    for each in (engine, loop):
        each.prepare(visited)
        each.run()
    reached = [data.qpos for data in loop.datas]
    assert engine.batch.counters.policy_steps == 3
    np.testing.assert_allclose(engine.batch.state.qpos, reached, atol=1e-4)


def test_the_card_is_measured_only_where_there_is_one(capsys):
    assert main(["--quick", "--sections", "G"]) == 0
    if card.default_device() is None:
        assert "not measured: needs a graphics card" in capsys.readouterr().out
    if card.is_installed():
        assert main(["--quick", "--sections", "G", "--device", "cpu"]) == 0
        shown = capsys.readouterr().out
        assert "both backends ran" in shown and "per second" not in shown


def test_the_crossover_is_from_where_on_the_card_stays_faster(capsys):
    rows = [
        dict(robots=n, processor=2e5, card=rate)
        for n, rate in ((16, 3e5), (64, 1e5), (256, 3e5), (1024, 1e6))
    ]
    assert card.crossover(rows) == 256
    assert card.crossover(rows[:2]) is None
    card.show(Console(), dict(device="cuda:0", name="a card", threads=2, rows=rows))
    shown = capsys.readouterr().out
    assert "1,000,000" in shown and "warp is faster from 256 robots on" in shown


def test_samples_keep_state_and_target_together():
    numbers = np.arange(12.0).reshape(3, 4, 1)
    sample = Work(numbers, numbers.astype(np.float32), numbers).sample(5, 2)
    assert sample.states.shape == (5, 2, 1)
    np.testing.assert_array_equal(sample.states, sample.targets)
    np.testing.assert_array_equal(sample.states, sample.actions)


def test_columns_find_the_numbers_in_a_state():
    m = mjcf.build_model("fast")
    data = common.keyframe(m)
    data.qacc_warmstart[:] = np.arange(18)
    values = common.state(m, data)
    np.testing.assert_array_equal(values[common.columns(m, mujoco.mjtState.mjSTATE_QPOS)], m.key_qpos[0])
    np.testing.assert_array_equal(values[common.columns(m, mujoco.mjtState.mjSTATE_WARMSTART)], np.arange(18))


def test_the_figure_has_both_panels(tmp_path):
    figure.png(ROWS, tmp_path / "lab.png")
    assert (tmp_path / "lab.png").read_bytes().startswith(b"\x89PNG")
    assert [line for line, _ in figure.lines(ROWS)] == [
        ("herd", state, threads) for state in throughput.STATES for threads in (1, 2)
    ]
    shown = figure.terminal(ROWS, width=80, color=False)
    for text in ("per second", "per processor second", "AA herd, standing", "BB herd, training"):
        assert text in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sections", "A,X"], "--sections X: must be some of A,B,C,D,E,F,G"),
        (["--task", "spot"], "--task: env='spot': must be one of go2, go2_unitree"),
        (["--device", "meta"], "--device meta: must be cpu, or cuda:N of a GPU that torch can use"),
        (["--png", "lab.png", "--sections", "A"], "--png: draws section C without --quick"),
        (["--json", "nowhere/lab.json"], "nowhere/lab.json: its directory does not exist"),
        (["A"], "unrecognized arguments: A"),
    ],
)
def test_a_mistake_is_one_line(arguments, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert capsys.readouterr().err == f"envs.lab: {message}\n"
