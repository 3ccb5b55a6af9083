"""Curves of single logs, rolling means, and means over groups of logs."""

import json

import numpy as np
import pytest

from plots.series import make_series, rolling_mean
from plots.table import read_table
from tests.plots.made_runs import logs_of, write


def test_rolling_mean_against_a_slow_loop():
    values = np.random.default_rng(0).normal(size=40)
    for window in (1, 2, 7, 39, 40, 500):
        expected = [values[max(i - window + 1, 0) : i + 1].mean() for i in range(40)]
        np.testing.assert_allclose(rolling_mean(values, window), expected, atol=1e-12)


def test_cells_without_a_number_are_left_out(plot, tmp_path):
    values = ["", "nan", 5, "", "inf", 7, "-inf", "x", 6, "nan"]
    log = write(tmp_path / "logs.tsv", [(i, value, 0) for i, value in enumerate(values)])
    status, out, _ = plot(log)
    assert status == 0 and "logs.tsv: 6" in out
    (series,) = make_series([read_table(log)], "step", ["mean_episode_return"])
    assert series.x.tolist() == [2, 5, 8] and series.y.tolist() == [5, 7, 6]


def test_a_group_is_shown_by_its_mean_and_spread(tmp_path):
    tables = logs_of(tmp_path, a=(1, [1, 2, 3]), b=(2, [3, 6, 9]), c=(3, [100, 100, 100]))
    (one,) = make_series(tables, "step", ["mean_episode_return"], group="all")
    assert one.label == "all (3)"
    at = [0, 200, -1]  # the middle of 400 points is half a spacing before step 1
    np.testing.assert_allclose(one.smooth[at], [104 / 3, 36, 112 / 3], atol=0.02)
    np.testing.assert_allclose(one.spread[[0, -1]], np.std([[1, 3, 100], [3, 9, 100]], axis=1, ddof=1))
    ppo, vtrace = make_series(tables, "step", ["mean_episode_return"], group="algorithm.name")
    assert (ppo.label, vtrace.label) == ("algorithm.name=ppo (2)", "algorithm.name=vtrace (1)")
    np.testing.assert_allclose([ppo.smooth[0], ppo.spread[0]], [2, np.sqrt(2)])
    assert vtrace.smooth[-1] == 100 and np.isnan(vtrace.spread).all()


def test_the_peers_of_a_run_are_one_group(tmp_path):
    tables = logs_of(tmp_path, a=(1, [1, 2, 3]), b=(2, [3, 6, 9]), c=(3, [5, 5, 5]))
    for table, run in zip(tables, ("x/one", "x/one", "x/two"), strict=True):
        (table.path.parent / "meta.json").write_text(json.dumps({"config": {"savedir": run}}))
    series = make_series(tables, "step", ["mean_episode_return"], group="run")
    assert [(one.label, one.smooth[-1]) for one in series] == [("x/one (2)", 6), ("x/two (1)", 5)]


def test_a_mean_reaches_as_far_as_half_of_its_logs(tmp_path):
    tables = logs_of(tmp_path, a=(1, [1, 1, 1]), b=(2, [3, 3]), c=(3, [5]))
    (one,) = make_series(tables, "step", ["mean_episode_return"], group="all")
    assert one.x.max() == pytest.approx(1, abs=0.01)
    assert one.smooth[0] == 3 and one.smooth[-1] == 2


@pytest.mark.parametrize("log_x", [False, True])
def test_logs_that_do_not_overlap_have_a_mean_with_gaps(tmp_path, log_x):
    tables = [
        read_table(write(tmp_path / name, [(start + i, start, 0) for i in range(5)]))
        for name, start in (("a", 10), ("b", 100), ("c", 1000))
    ]
    (one,) = make_series(tables, "step", ["mean_episode_return"], group="all", log_x=log_x)
    there = np.isfinite(one.smooth)
    assert set(np.round(one.smooth[there], 6)) == {10, 100, 1000}
    assert one.x[there].min() == 10 and one.x[there].max() == 1004
    assert not (there & (one.x > 14) & (one.x < 100)).any()
    for start in (10, 100):  # a line from one log to the next is interrupted
        end = np.flatnonzero(one.smooth == start).max()
        assert np.isnan(one.smooth[end + 1])


def test_no_line_crosses_a_stop(tmp_path):
    """A peer was away from step 3 to step 1000; the mean of two logs is the other's meanwhile."""
    rows = [(step, 1, 0) for step in (0, 1, 2, 3, 1000, 1001)]
    away = read_table(write(tmp_path / "away", rows))
    (one,) = make_series([away], "step", ["mean_episode_return"])
    np.testing.assert_array_equal(one.x, [0, 1, 2, 3, np.nan, 1000, 1001])
    np.testing.assert_array_equal(one.smooth, [1, 1, 1, 1, np.nan, 1, 1])
    there = read_table(write(tmp_path / "there", [(step, 3, 0) for step in range(1002)]))
    (both,) = make_series([away, there], "step", ["mean_episode_return"], group="all")
    assert set(both.smooth[(both.x > 3) & (both.x < 1000)]) == {3}
    assert set(both.smooth[(both.x <= 3) | (both.x >= 1000)]) == {2}
