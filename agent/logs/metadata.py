"""Run metadata for identification and reproduction: `meta.json`."""

import importlib.metadata
import json
import os
import platform
import re
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.storage.files import write_atomic
from agent.storage.paths import REPOSITORY
from envs.machine import cores

PACKAGES = ("herd", "torch", "numpy", "mujoco", "mjbatch", "gymnasium", "hydra-core", "safetensors", "wandb")
SECRET_KEY = re.compile(r"(^|_)(key|secret|token|password)$", re.IGNORECASE)


def git_commit(directory: Path = REPOSITORY) -> str | None:
    """Return the commit that is checked out in `directory`, the root of a Git checkout.

    Returns:
        40 hexadecimal digits, with `-dirty` behind them if tracked files were changed; None if the directory
        is no checkout or Git is not installed.
    """
    if not (directory / ".git").exists():
        return None
    command = ["git", "-C", str(directory), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip() if result.returncode == 0 else None


def hide_secrets(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of `config` with `"***"` for values of keys such as `key`, `api_key` or `password`."""
    hidden: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            hidden[key] = hide_secrets(value)
        else:
            hidden[key] = "***" if value is not None and SECRET_KEY.search(str(key)) else value
    return hidden


def write_metadata(path: str | os.PathLike[str], config: Mapping[str, Any], **more: Any) -> None:
    """Write `meta.json`: the time, the machine's name and cores, versions, the Git commit, the configuration.

    Nothing of the process's environment is written.

    Args:
        path: The file, replaced as a whole.
        config: Nested settings of JSON's types; values of keys that name a secret are hidden.
        more: Further entries, for example `peer="…"`.
    """
    metadata = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "host": socket.gethostname(),
        "cores": cores(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "packages": _versions(PACKAGES),
        "git_commit": git_commit(),
        **more,
        "config": hide_secrets(config),
    }
    write_atomic(path, (json.dumps(metadata, indent=2) + "\n").encode())


def _versions(packages: Sequence[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed, without importing them."""
    versions = {}
    for package in packages:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions
