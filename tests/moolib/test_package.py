"""The public names of the package."""

from __future__ import annotations

import subprocess
import sys

import pytest

import moolib
from moolib import Rpc, RpcError


def test_module_functions():
    assert len(moolib.create_uid()) == 16 and int(moolib.create_uid(), 16) >= 0
    with pytest.raises(ValueError, match="0 to 4"):
        moolib.set_log_level("loud")
    with pytest.raises(ValueError, match="0 to 4"):
        moolib.set_log_level(5)
    for level in ("none", "debug", 0, 1):
        moolib.set_log_level(level)
    with pytest.raises(ValueError, match="at least 1"):
        moolib.set_max_threads(0)
    with pytest.raises(RpcError, match="allowed are"):
        Rpc().set_transports(["pigeon"])
    with pytest.raises(AttributeError, match="nothing"):
        moolib.nothing  # noqa: B018


def test_importing_the_package_imports_nothing_else():
    code = """
import sys, moolib
assert [name for name in sys.modules if name.startswith("moolib")] == ["moolib"]
assert "torch" not in sys.modules and "numpy" not in sys.modules
moolib.Rpc, moolib.Broker, moolib.RpcError
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_every_public_name_can_be_imported():
    assert set(moolib.__all__) <= set(dir(moolib))
    for name in moolib.__all__:
        assert getattr(moolib, name).__name__ == name


def test_systems_other_than_linux():
    """Nothing fails before it is used, and then with one line. (Windows lacks all of these.)"""
    code = """
import os, select, signal, socket, sys
sys.modules["resource"] = sys.modules["fcntl"] = None
missing = {
    os: ["memfd_create", "fork"],
    select: ["poll"],
    signal: ["SIGHUP", "SIGKILL"],
    socket: ["AF_UNIX", "SOCK_SEQPACKET", "recv_fds", "send_fds"],
}
for module, names in missing.items():
    for name in names:
        delattr(module, name)
import moolib, moolib.broker
for name in moolib.__all__:
    getattr(moolib, name)
for create in (moolib.Rpc, moolib.Broker, lambda: moolib.EnvPool(int, 1, 1, 1)):
    try:
        create()
    except moolib.RpcError as error:
        assert "runs on Linux only" in str(error)
    else:
        raise AssertionError
moolib.broker.main([])
"""
    child = subprocess.run([sys.executable, "-c", code], timeout=60, capture_output=True, text=True)
    assert child.stderr == f"broker: moolib runs on Linux only: no Unix sockets on {sys.platform}\n"
    assert child.returncode == 1 and child.stdout == ""
