"""The GPU benchmark runs from end to end on Warp's CPU device."""

import json

import pytest

from benchmarks.gpu import main

pytest.importorskip("mujoco_warp", reason="MuJoCo Warp is not installed: pip install 'herd[gpu]'")


def test_smoke(tmp_path, capsys):
    out = tmp_path / "gpu.json"
    assert main(["--smoke", f"out={out}"]) == 0
    result = json.loads(out.read_text())
    (row,) = result["rows"]
    assert row["robots"] == 16 and "failed" not in row
    assert all(row[name] > 0 for name in ("physics", "env", "training"))
    assert result["walk"][-1]["steps"] > 0 and result["walk"][-1]["error"] > 0.15
    assert "at most 0.15 m/s: not reached" in capsys.readouterr().out


def test_a_device_that_is_not_there_stops_with_one_line(capsys):
    assert main(["device=cuda:17"]) == 2
    assert "device=cuda:17: must be cpu, or cuda:N" in capsys.readouterr().err
