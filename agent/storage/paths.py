"""Paths of this program's own files, and names of those that a run writes."""

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]  # of a checkout; of an installation, its site-packages
PYPROJECT = REPOSITORY / "pyproject.toml"  # only in a checkout
CONF = REPOSITORY / "conf"  # the configuration tree, a package beside `agent`
SCENARIOS = CONF / "scenario"  # published runs

CHECKPOINT = "checkpoint.safetensors"  # in the run's directory, `savedir`
LATEST = f"latest/{CHECKPOINT}"  # of the run that was started last in the working directory
