"""meta.json: what identifies a run, without its secrets."""

import json
import subprocess

import torch

from agent.logs.metadata import git_commit, write_metadata


def test_metadata_tells_the_run_apart_and_keeps_secrets(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "in-the-environment")
    config = {
        "seed": 1,
        "api_key": "in-the-config",
        "monkey": "no secret",
        "env": {"token": "nested", "key": None},
    }
    write_metadata(tmp_path / "meta.json", config, peer="anna")
    text = (tmp_path / "meta.json").read_text()
    assert "in-the-" not in text and "nested" not in text
    metadata = json.loads(text)
    assert metadata["config"] == {
        "seed": 1,
        "api_key": "***",
        "monkey": "no secret",
        "env": {"token": "***", "key": None},
    }
    assert metadata["peer"] == "anna"
    assert metadata["packages"]["torch"] == torch.__version__
    assert metadata["cores"] >= 1 and metadata["host"]
    assert not list(tmp_path.glob(".*"))


def test_git_commit(tmp_path):
    def git(*arguments):
        identity = ["-c", "user.name=t", "-c", "user.email=t@t"]
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    assert git_commit(tmp_path) is None
    git("init")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "-m", "one")
    git("tag", "-a", "v1", "-m", "v1")
    commit = git("rev-parse", "HEAD")
    assert git_commit(tmp_path) == commit
    (tmp_path / "file").write_text("two")
    assert git_commit(tmp_path) == f"{commit}-dirty"
