"""The chaos rig: real peers survive a schedule of faults, and its ledger would notice if they did not."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.chaos.checked_peer import BODY, RAMP, Model, pattern
from benchmarks.chaos.ledger import History, Ledger

ROOT = Path(__file__).parents[2]


def test_a_short_schedule_of_faults_does_no_harm(tmp_path):
    command = ["-m", "benchmarks.chaos", "faults=4", "peers=4", "timeout=1", "seed=26", "training=0"]
    result = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "4 faults" in result.stdout and "Traceback" not in result.stderr


def test_the_sum_of_an_update_is_checked_against_its_contributions():
    model, other = Model(), Model()
    model.set_gradient(3, 17)
    assert model.body.grad.tolist()[:3] == [-3 - 2 * 17, 1 - 17, -2]  # 4 i mod 7 - 3, and i mod 5 - 2
    other.set_gradient(9, 2)
    for mine, theirs in zip(model.parameters, other.parameters, strict=True):
        mine.grad = (mine.grad + theirs.grad) / 2
    parts, right = model.apply(2)
    assert (parts, right) == ({3: [1, 17], 9: [1, 2]}, True)
    assert model.applied[3].tolist() == [1, 17]
    assert torch.equal(model.body.detach(), (pattern(3) + pattern(9) + 19 * RAMP).remainder(8191))

    model.set_gradient(3, 18)
    model.body.grad[BODY - 1] += 1  # as if a part of the sum were missing
    assert model.apply(1) == ({3: [1, 18]}, False)


def update(version, model=None, parts=None, right=True):
    parts = parts or {"0": [1, version]}
    return {"event": "update", "version": version, "model": model or version, "parts": parts, "right": right}


def took(version, model=None):
    return {"event": "took", "version": version, "model": model or version}


def check(*histories, ledger=None):
    return (ledger or Ledger()).check([History(name, *rest) for name, *rest in histories])


def test_a_peer_that_was_hurt_may_drop_an_update_that_nobody_else_has_seen():
    all_well = check(
        ("a", True, False, [update(1), update(2), update(3)]),
        ("b", True, True, [update(1), update(2, model=77), took(3)]),
        ("c", False, True, [update(1), update(2, model=88)]),
    )
    assert (all_well.problems, all_well.lost) == ([], 0)
    lost = check(
        ("a", True, False, [update(1), update(2), update(3)]),
        ("b", True, False, [update(1), update(2, model=77), took(3)]),
    )
    assert (lost.problems, lost.lost) == ([], 1)


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ([update(1), update(2, right=False)], "wrong sum"),
        ([update(1), update(2, parts={"0": [1, 1]})], "applied twice"),
        ([update(1), update(2, parts={"0": [2, 4]})], "applied twice"),
        ([update(1), update(3)], "[2] are in nobody's log"),
        ([update(1), update(2), update(2)], "version 2 after 2"),
        ([update(1), update(2), took(1)], "version 1 after 2"),
        ([update(1), took(2, model=5), update(3)], "nobody's log"),
    ],
)
def test_what_must_not_happen_is_found(events, problem):
    assert problem in "; ".join(check(("a", True, False, events)).problems)


def test_models_that_differ_are_found_even_if_they_are_seen_one_after_the_other():
    ledger = Ledger()
    assert not check(("a", True, False, [update(1), update(2)]), ledger=ledger).problems
    assert check(("b", True, False, [update(1), update(2, model=9)]), ledger=ledger).problems
    assert "adopted another model" in check(("c", True, True, [took(2, model=9)]), ledger=ledger).problems[0]


def test_no_waiting_depends_on_the_wall_clock():
    files = [path for package in ("moolib", "agent") for path in (ROOT / package).rglob("*.py")]
    asking = [path.name for path in files if "time.time()" in path.read_text()]
    assert len(files) > 50
    assert asking == ["files.py"]  # which compares with the times of files, to find abandoned ones
