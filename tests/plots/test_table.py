"""Logs that are still being written, and directories of them."""

import pytest

from tests.plots.made_runs import logs_of, write


@pytest.mark.parametrize("half", ["9", "9\t9", "9\t1e9\t", "9\t1e9\t4"])
def test_half_written_last_line_is_left_out(plot, tmp_path, half):
    log = write(tmp_path / "logs.tsv", [(1, 10, 0), (2, 20, 0)], end=half)
    status, out, _ = plot(log)
    assert status == 0 and "logs.tsv: 20" in out


def test_a_directory_stands_for_every_log_in_it_once(plot, tmp_path):
    logs_of(tmp_path, a=(1, [1, 2, 3]), b=(2, [3, 6, 9]))
    (tmp_path / "logs.tsv").symlink_to("b/logs.tsv")
    out = plot(tmp_path)[1]
    assert "a/logs.tsv: 3" in out and out.count(": 9") == 1
