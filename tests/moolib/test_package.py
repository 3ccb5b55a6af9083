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
