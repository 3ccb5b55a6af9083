"""The installed package: found before a user's folders of the same names, typed, and complete."""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("moolib", "envs", "agent", "plots")


def installed_from_here() -> bool:
    """Whether this Python has an editable install of this checkout."""
    try:
        origin = metadata.distribution("herd").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return False
    return json.loads(origin or "{}").get("url") == ROOT.as_uri()


@pytest.mark.skipif(not installed_from_here(), reason="needs pip install -e . of this checkout")
@pytest.mark.parametrize("module", ["agent.experiment", "agent.doctor", "moolib.broker"])
def test_empty_folders_in_the_working_directory_hide_nothing(tmp_path, module):
    for name in (*PACKAGES, "conf"):
        (tmp_path / name).mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(
        [sys.executable, "-m", module, "--help"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert module in result.stdout


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_is_typed_and_so_are_its_folders_packages(package):
    assert (ROOT / package / "py.typed").exists()
    folders = {path.parent for path in (ROOT / package).rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []
