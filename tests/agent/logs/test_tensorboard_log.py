"""TensorBoard, read back with TensorBoard's own reader."""

import sys
from pathlib import Path

import pytest

from agent.cli.overrides import compose
from agent.config import from_omegaconf
from agent.errors import LogError
from agent.logs.columns import columns
from agent.logs.tensorboard_log import TensorboardLog
from agent.training.run_files import RunFiles


def scalars(directory):
    """Return (step, value) of each scalar below a directory, in the order of its event files."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(directory), size_guidance={accumulator.SCALARS: 0}).Reload()
    return {
        name: [(event.step, event.value) for event in events.Scalars(name)]
        for name in events.Tags()["scalars"]
    }


def test_a_resumed_run_continues_without_rows_that_go_back(tmp_path):
    pytest.importorskip("tensorboard")
    first = TensorboardLog(tmp_path)
    for step in (0, 10, 20):
        first.write({"step": step, "loss": 1.0, "note": None, "checksum": "12ab"})
    first.close()
    # The checkpoint was older than the last row: training goes back to step 10.
    second = TensorboardLog(tmp_path, last_step=20)
    for step in (10, 20, 30, 40):
        second.write({"step": step, "loss": 0.5})
    second.close()
    found = scalars(tmp_path)
    assert found["loss"] == [(0, 1.0), (10, 1.0), (20, 1.0), (30, 0.5), (40, 0.5)]
    assert set(found) == {"step", "loss"}


def test_rows_that_were_taken_back_are_discarded(tmp_path):
    pytest.importorskip("tensorboard")
    first = TensorboardLog(tmp_path)
    for step in (0, 10, 20, 30):
        first.write({"step": step, "loss": 1.0})
    first.close()
    second = TensorboardLog(tmp_path, last_step=10)
    second.write({"step": 15, "loss": 0.5})
    second.close()
    assert scalars(tmp_path)["loss"] == [(0, 1.0), (10, 1.0), (15, 0.5)]


@pytest.mark.parametrize("asked", [True, False])
def test_a_run_writes_its_rows_when_asked_to(tmp_path, monkeypatch, asked):
    pytest.importorskip("tensorboard")
    monkeypatch.chdir(tmp_path)
    value = str(asked).lower()
    config = from_omegaconf(compose(f"tensorboard={value}", f"savedir={tmp_path / 'run'}"))
    for steps in ((5, 10), (10, 20)):
        files = RunFiles(config, print)
        files.open(["gait"], updates=100)
        names = [column.name for column in columns(["gait"])]
        for step in steps:
            files.write({**dict.fromkeys(names), "step": step, "updates": 1, "entropy": step / 2})
        files.close()
    events = Path(config.localdir) / "tensorboard"
    assert events.exists() == asked
    if asked:
        assert scalars(events)["entropy"] == [(5, 2.5), (10, 5.0), (20, 10.0)]


def test_a_missing_package_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(LogError, match="tensorboard=true: tensorboard is not installed; run: pip install -e"):
        TensorboardLog(tmp_path / "events")


def test_a_directory_that_cannot_be_made_is_one_line(tmp_path):
    pytest.importorskip("tensorboard")
    (tmp_path / "file").write_text("")
    with pytest.raises(LogError, match=r"tensorboard=true: .*file"):
        TensorboardLog(tmp_path / "file" / "events")


def test_a_writer_that_fails_is_told_once(tmp_path, monkeypatch):
    pytest.importorskip("tensorboard")
    log = TensorboardLog(tmp_path)

    def broken(*_, **__):
        raise OSError("No space left on device")

    end = log.writer.close
    monkeypatch.setattr(log.writer, "add_scalar", broken)
    with pytest.raises(LogError, match="tensorboard: No space left on device; no further rows go there"):
        log.write({"step": 1})
    log.write({"step": 2})
    log.close()
    end()
