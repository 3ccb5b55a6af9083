"""The doctor: on a good machine, on a bad one, and where the packages that it checks are broken."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent import doctor
from agent.cli import doctor_checks


def test_here_everything_needed_is_good(capsys, tmp_path):
    assert doctor.main(["--json", f"savedir={tmp_path}"]) == 0
    findings = {finding["name"]: finding for finding in json.loads(capsys.readouterr().out)}
    for name in ("python", "torch", "mujoco", "mjbatch", "packages", "physics", "directory", "disk"):
        assert findings[name]["status"] == "good", findings[name]
    assert findings["physics"]["text"].startswith("eight robots stand 3")  # cm
    assert findings["mujoco"]["text"] == "3.14.0 (needs ==3.14.0)"
    assert "broker" not in findings


def test_something_bad_ends_with_status_1_and_is_named(capsys, monkeypatch):
    bad = doctor_checks.Finding("torch", "bad", "1.0", "pip install torch")
    monkeypatch.setattr(doctor, "examine", lambda options: iter([bad]))
    assert doctor.main([]) == 1
    assert capsys.readouterr().out == "bad   torch      1.0 → pip install torch\n\nto be repaired: torch\n"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (
            "conect=1.2.3.4:5",
            "conect=1.2.3.4:5: unknown key; allowed are connect, key_file, savedir, port, json",
        ),
        ("port=65536", "port=65536: must be from 0 to 65535"),
        ("port=x", "port='x': must be a whole number"),
    ],
)
def test_mistakes_are_told_in_one_line(capsys, argument, message):
    assert doctor.main([argument]) == 2
    assert capsys.readouterr().err == f"agent.doctor: {message}\n"


def test_broken_packages_are_named_and_stop_nothing(tmp_path):
    for name in ("torch", "mujoco", "numpy", "omegaconf", "gymnasium"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('broken on purpose')\n")
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(root)])}
    command = [sys.executable, "-m", "agent.doctor", "--json"]
    result = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100
    )
    assert (result.returncode, result.stderr) == (1, "")
    findings = {finding["name"]: finding for finding in json.loads(result.stdout)}
    for name in ("torch", "mujoco"):
        assert findings[name]["status"] == "bad" and "broken on purpose" in findings[name]["text"]
    assert findings["physics"]["status"] == "bad" and findings["port"]
