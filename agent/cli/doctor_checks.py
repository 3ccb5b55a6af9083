"""The checks of `agent.doctor`: each function examines one subject and never raises.

Heavy packages are imported inside the functions, so that a broken one does not prevent the other checks.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from agent.cli import hints
from agent.storage.paths import CONF, PYPROJECT, REPOSITORY

SHOWN = ("torch", "mujoco", "mjbatch")  # packages with a line of their own
EXTRAS = {
    "play": "the viewer and the films of agent.play",
    "export": "agent.export",
    "wandb": "wandb=true",
    "tensorboard": "tensorboard=true",
}
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
GIB = 2.0**30  # bytes
MIN_DISK, GOOD_DISK = 0.1, 1.0  # GiB; a checkpoint of the default model has 2 MB
GOOD_MEMORY = 1.5  # GiB; the plain command takes about 0.8
BROKER_PORT = 4431


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        name: The subject.
        status: `bad` keeps the plain training command (or what the user asked about) from working, `note`
            costs speed or an optional feature.
        text: The finding, one line.
        todo: Advice; empty if there is nothing to do.
    """

    name: str
    status: Literal["good", "note", "bad"]
    text: str
    todo: str = ""


def requirements() -> tuple[str, list[Requirement], dict[str, list[Requirement]]]:
    """Return herd's range of Python versions, its requirements, and those of its extras."""
    if PYPROJECT.is_file():
        project = tomllib.loads(PYPROJECT.read_text())["project"]
        extras = project["optional-dependencies"]
        return (
            project["requires-python"],
            [Requirement(text) for text in project["dependencies"]],
            {name: [Requirement(text) for text in extras[name]] for name in EXTRAS},
        )
    installed = importlib.metadata.metadata("herd")
    needed = [Requirement(text) for text in importlib.metadata.requires("herd") or []]
    of_extra = {
        name: [one for one in needed if one.marker and one.marker.evaluate({"extra": name})]
        for name in EXTRAS
    }
    return installed["Requires-Python"], [one for one in needed if one.marker is None], of_extra


def check_python() -> Iterator[Finding]:
    """Check the version of Python."""
    allowed = requirements()[0]
    version = platform.python_version()
    good = SpecifierSet(allowed).contains(version, prereleases=True)
    todo = "" if good else "make a virtual environment with such a Python: python3.11 -m venv .venv"
    yield Finding("python", "good" if good else "bad", f"{version} (needs {allowed})", todo)


def check_packages() -> Iterator[Finding]:
    """Check versions against the tested ranges; packages that are fine and not in `SHOWN` share a line."""
    needed, fine = requirements()[1], 0
    for requirement in needed:
        finding = check_version(requirement)
        if finding.status == "good" and requirement.name not in SHOWN:
            fine += 1
        else:
            yield finding
    yield Finding("packages", "good", f"{fine} others are within their tested ranges")


def check_version(requirement: Requirement) -> Finding:
    """Check that a package is installed, within its range and, if it is in `SHOWN`, can be imported."""
    name, allowed = requirement.name, requirement.specifier
    todo = f"pip install '{requirement.name}{requirement.specifier}'"
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, "bad", f"is not installed (needs {allowed})", todo)
    if not allowed.contains(version, prereleases=True):
        return Finding(name, "bad", f"{version}, but {allowed} is what was tested", todo)
    if name in SHOWN:
        try:
            importlib.import_module(name)
        except Exception as error:  # a broken installation may raise anything
            return Finding(name, "bad", f"{version} cannot be imported: {_one_line(error)}", todo)
    return Finding(name, "good", f"{version} (needs {allowed})")


def check_extras() -> Iterator[Finding]:
    """Check the packages of optional features."""
    for extra, purpose in EXTRAS.items():
        findings = [check_version(requirement) for requirement in requirements()[2][extra]]
        wrong = [f"{one.name} {one.text}" for one in findings if one.status != "good"]
        if wrong:
            todo = f"pip install 'herd[{extra}]' (from the checkout: pip install -e '.[{extra}]')"
            yield Finding(extra, "note", f"optional, for {purpose}: {'; '.join(wrong)}", todo)
        else:
            yield Finding(extra, "good", f"installed, for {purpose}")


def check_cores() -> Iterator[Finding]:
    """Check that no other program uses the cores."""
    try:
        from envs.machine import cores
    except Exception:
        return  # check_packages has reported it
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    text = f"{cores()} to use, {load:.1f} busy in the last minute"
    if load > cores() / 2:
        yield Finding("cores", "note", text, "training is slower while other programs use the cores")
    else:
        yield Finding("cores", "good", text)


def check_threads() -> Iterator[Finding]:
    """Check the number of torch's threads."""
    try:
        import torch

        from envs.machine import cores
    except Exception:
        return  # check_packages has reported it
    threads = torch.get_num_threads()
    library = "MKL" if torch.backends.mkl.is_available() else "no MKL"
    library += ", oneDNN" if torch.backends.mkldnn.is_available() else ", no oneDNN"
    text = f"torch would use {threads} of {cores()} cores ({library})"
    limits = [f"{name}={os.environ[name]}" for name in THREAD_VARIABLES if name in os.environ]
    if limits and threads < cores():
        yield Finding("threads", "note", f"{text}: {', '.join(limits)}", "unset it, or set learner_threads=")
    else:
        yield Finding("threads", "good", text)


def check_bf16() -> Iterator[Finding]:
    """Check how fast this machine learns, and whether it has GPUs."""
    try:
        import torch

        from agent.algorithms.objective import has_fast_bf16

        fast, gpus = has_fast_bf16("cpu"), torch.cuda.device_count()
    except Exception as error:
        yield Finding("bf16", "note", f"cannot tell: {_one_line(error)}")
        return
    how = "has AMX: precision=auto learns in bf16" if fast else "has no AMX: precision=auto learns in float32"
    yield Finding("bf16", "good", f"this processor {how}")
    if gpus:
        warp = find_spec("mujoco_warp") is not None
        how = "train on one with machine=gpu" if warp else "learn on one with device=cuda:0"
        advice = "" if warp else "pip install 'herd[gpu]' to step the robots there, too"
        yield Finding("gpu", "good", f"{gpus}, {how}", advice)


def check_physics() -> Iterator[Finding]:
    """Step some robots."""
    try:
        from hydra import compose, initialize_config_dir
        from omegaconf import OmegaConf

        from envs import EnvConfig, make_pool

        with initialize_config_dir(str(CONF), version_base="1.3"):
            env = OmegaConf.to_container(compose("config").env, resolve=True)
        assert isinstance(env, dict)
        pool = make_pool(EnvConfig.from_dict({str(key): value for key, value in env.items()}), 8, 1, 0)
        pool.reset(0)
        height = float(pool.state(0).qpos[:, 2].mean())
        pool.close()
    except Exception as error:
        yield Finding("physics", "bad", f"the robots cannot be stepped: {_one_line(error)}", "see above")
        return
    yield Finding("physics", "good", f"eight robots stand {100 * height:.0f} cm high")


def check_rendering() -> Iterator[Finding]:
    """Take a picture in a process of its own: a broken driver may end it."""
    program = (
        "from agent.errors import RenderError\nfrom agent.policies.rendering import Camera, backend\n"
        "from envs.go2.robot import visual\nimport sys\ntry: Camera(visual.stage(1), 64, 64).close()\n"
        "except RenderError as error: sys.exit(str(error))\nprint(backend())"
    )
    try:
        result = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=REPOSITORY,
        )
    except subprocess.TimeoutExpired:
        yield Finding("rendering", "note", "no picture within 60 s", "try MUJOCO_GL=osmesa")
        return
    if result.returncode == 0:
        yield Finding("rendering", "good", f"works with MUJOCO_GL={result.stdout.strip()}")
    else:
        last_line = (result.stderr.strip() or f"ended with {result.returncode}").splitlines()[-1]
        todo = "needed for films only; Debian: apt-get install libosmesa6"
        yield Finding("rendering", "note", last_line, todo)


def check_compiler() -> Iterator[Finding]:
    """Check for a C++ compiler, which torch.compile needs."""
    compiler = shutil.which(os.environ.get("CXX", "c++")) or shutil.which("g++") or shutil.which("clang++")
    if compiler:
        yield Finding("compiler", "good", f"{compiler}, for compile=true")
    else:
        yield Finding("compiler", "note", "no C++ compiler: compile=true does not work", "install g++ for it")


def check_directory(directory: Path) -> Iterator[Finding]:
    """Check write access, links and free space where the runs will be written."""
    try:
        with tempfile.TemporaryDirectory(dir=directory) as inside:
            (Path(inside) / "link").symlink_to("file")
        yield Finding("directory", "good", f"{directory} can be written")
    except OSError as error:
        todo = "start training in a directory of your own, or give savedir="
        yield Finding("directory", "bad", f"{directory}: {error.strerror}", todo)
        return
    free = shutil.disk_usage(directory).free / GIB
    status: Literal["good", "note", "bad"] = (
        "good" if free >= GOOD_DISK else "note" if free >= MIN_DISK else "bad"
    )
    todo = "" if status == "good" else "make room, or give savedir= on another disk"
    yield Finding("disk", status, f"{free:.1f} GiB free in {directory}", todo)


def check_memory() -> Iterator[Finding]:
    """Check the free memory."""
    try:
        fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        free = int(fields["MemAvailable"].split()[0]) * 1024 / GIB
    except (OSError, KeyError, ValueError):
        return  # not Linux
    todo = "" if free >= GOOD_MEMORY else "close other programs, or train fewer robots: actor_batch_size="
    yield Finding("memory", "note" if todo else "good", f"{free:.1f} GiB free", todo)


def check_port(port: int) -> Iterator[Finding]:
    """Check that a broker can be started here."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError as error:
            asking = f"{hints.module('moolib.broker')} --status 127.0.0.1:{port}"
            todo = f"if it is a broker, {asking} tells; else start yours with another port"
            yield Finding("port", "note", f"{port} is not free for a broker: {error.strerror}", todo)
            return
    yield Finding("port", "good", f"{port} is free for a broker")


def check_broker(address: str, key_file: str | None) -> Iterator[Finding]:
    """Check that the broker answers, asking as agent.experiment would."""
    try:
        import moolib
        from moolib.status import ask_status

        groups = ask_status(moolib.Rpc(key_file=key_file), address)
    except Exception as error:
        todo = f"is it started ({hints.module('moolib.broker')}), is IP:PORT right, does a firewall allow it"
        if key_file is None:
            todo += ", does it want a key (key_file=)"
        yield Finding("broker", "bad", _one_line(error), todo + "?")
        return
    names = ", ".join(f"{name} ({len(group['members'])})" for name, group in sorted(groups.items()))
    yield Finding("broker", "good", f"answers at {address}; groups and members: {names or 'none yet'}")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
