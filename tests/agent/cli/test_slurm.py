"""Job arrays: the script is one that bash and sbatch can read."""

import os
import subprocess

import pytest

from agent.cli.slurm import JobArray, script, submit
from agent.errors import ConfigError

JOB = JobArray(name="herd", tasks=3, cpus=2, memory="4G", time="1:00:00")


def test_directives(tmp_path):
    lines = script(JOB, tmp_path, ["python"]).splitlines()
    assert lines[0] == "#!/bin/bash"
    assert [line for line in lines if line.startswith("#SBATCH")] == [
        "#SBATCH --job-name=herd", "#SBATCH --array=0-2", "#SBATCH --ntasks=1", "#SBATCH --cpus-per-task=2",
        "#SBATCH --mem=4G", "#SBATCH --time=1:00:00", "#SBATCH --signal=B:TERM@60",
        "#SBATCH --output=herd-%A_%a.out",
    ]  # fmt: skip


def test_bash_runs_the_peer_in_its_directory_under_a_name_of_its_task(tmp_path):
    directory = tmp_path / "it's a place"
    directory.mkdir()
    environment = os.environ | {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "2"}
    text = script(JOB, directory, ["printf", "%s\\n", "group=a b"])
    output = subprocess.run(
        ["bash", "-c", f"{text}\n"], env=environment, capture_output=True, text=True, check=True
    )
    group, name = output.stdout.splitlines()
    assert group == "group=a b" and name.startswith("local_name=") and name.endswith("-7-2")


def test_without_slurm_the_script_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="sbatch is not installed here; the script is in"):
        submit(tmp_path / "herd.sbatch", "#!/bin/bash\n")
    assert (tmp_path / "herd.sbatch").read_text() == "#!/bin/bash\n"
