"""The files of a run."""

import pytest

from plots.run import load_run
from plots.table import PlotError
from tests.plots.made_runs import CONFIG, write_peer


def test_a_log_or_a_peer_names_its_run_too(run):
    assert load_run(run / "peers" / "second" / "logs.tsv").directory == run.resolve()
    assert [table.path.parent.name for table in load_run(run / "peers" / "second").peers] == ["second"]


def test_several_runs_need_a_choice(run, tmp_path):
    config = {**CONFIG, "savedir": "y"}
    write_peer(tmp_path / "run" / "other" / "peers" / "p", [{"time": 1, "step": 1}], config=config)
    with pytest.raises(PlotError, match="holds 2 runs; name one"):
        load_run(run)
