"""What a run can be told apart and repeated by, `meta.json`, and shortcuts to where it is kept."""

import importlib.metadata
import json
import os
import platform
import re
import secrets
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.storage.files import write_atomic

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = ("herd", "torch", "numpy", "mujoco", "mjbatch", "gymnasium", "hydra-core", "safetensors", "wandb")
SECRET_KEY = re.compile(r"(^|_)(key|secret|token|password)$", re.IGNORECASE)


def git_commit(directory: Path = REPOSITORY) -> str | None:
    """The commit that `directory`, the root of a Git checkout, is at.

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
    """A copy of `config` in which values of keys such as `key`, `api_key` or `password` are `"***"`."""
    hidden: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            hidden[key] = hide_secrets(value)
        else:
            hidden[key] = "***" if value is not None and SECRET_KEY.search(str(key)) else value
    return hidden


def write_metadata(path: str | os.PathLike[str], config: Mapping[str, Any], **more: Any) -> None:
    """Writes what a run can be told apart and repeated by: `meta.json`.

    It holds the time, the machine's name and cores, versions, the Git commit and the configuration, and
    nothing of the process's environment.

    Args:
        path: The file, replaced as a whole.
        config: Nested settings of JSON's types; values of keys that name a secret are hidden.
        more: Further entries, for example `peer="…"`.
    """
    metadata = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "host": socket.gethostname(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "packages": _versions(PACKAGES),
        "git_commit": git_commit(),
        **more,
        "config": hide_secrets(config),
    }
    write_atomic(path, (json.dumps(metadata, indent=2) + "\n").encode())


def _versions(packages: Sequence[str]) -> dict[str, str]:
    """Versions of those packages that are installed, without importing them."""
    versions = {}
    for package in packages:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def symlink(target: str | os.PathLike[str], link: str | os.PathLike[str]) -> bool:
    """Points `link` at `target` in one atomic step, as a convenience: failing is no error.

    The link is relative if the target lies in the link's directory, so that the directory can be moved. A
    file or directory that is no symbolic link is never replaced.

    Returns:
        True if the link now points at the target.
    """
    link = Path(link)
    target, directory = Path(target).resolve(), link.parent.resolve()
    if target.is_relative_to(directory):
        target = target.relative_to(directory)
    temporary = link.with_name(f".{link.name}.{secrets.token_hex(4)}.tmp")
    try:
        if os.path.lexists(link) and not link.is_symlink():
            return False
        temporary.symlink_to(target)
        os.replace(temporary, link)
    except OSError:
        return False
    return True
