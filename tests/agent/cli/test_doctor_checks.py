"""Each check of the doctor finds what is good and what is not, and says what to do."""

import importlib.metadata
import shutil
import socket
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement

import moolib
from agent.cli import doctor_checks


def test_versions_outside_the_tested_range(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.99")
    found = {finding.name: finding for finding in doctor_checks.check_packages()}
    assert found["torch"].status == "bad" and found["torch"].todo == "pip install 'torch<2.14,>=2.9'"
    assert found["torch"].text.startswith("2.99, but ")


def test_a_package_that_is_missing():
    finding = doctor_checks.check_version(Requirement("herd-has-no-such-package>=2"))
    assert (finding.status, finding.text) == ("bad", "is not installed (needs >=2)")
    assert finding.todo == "pip install 'herd-has-no-such-package>=2'"


def test_a_package_that_cannot_be_imported(monkeypatch):
    def broken(name):
        raise ImportError("libfoo.so:\n not found")

    monkeypatch.setattr(doctor_checks.importlib, "import_module", broken)
    finding = doctor_checks.check_version(Requirement("torch"))
    assert finding.status == "bad" and finding.text.endswith("cannot be imported: libfoo.so: not found")


def test_missing_extras_are_only_noted(monkeypatch):
    monkeypatch.setattr(
        doctor_checks, "check_version", lambda one: doctor_checks.Finding(one.name, "bad", "is missing")
    )
    assert [(finding.name, finding.status) for finding in doctor_checks.check_extras()] == [
        ("play", "note"), ("export", "note"), ("wandb", "note"), ("tensorboard", "note"),
    ]  # fmt: skip


def test_a_directory_that_cannot_be_written(tmp_path):
    (finding,) = doctor_checks.check_directory(tmp_path / "missing")
    assert finding.status == "bad" and "savedir=" in finding.todo


@pytest.mark.parametrize(("free", "status"), [(0.05, "bad"), (0.5, "note"), (5, "good")])
def test_disk_space(monkeypatch, tmp_path, free, status):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free * 2**30))
    writable, disk = doctor_checks.check_directory(tmp_path)
    assert writable.status == "good" and disk.status == status and (disk.todo == "") == (status == "good")


def test_a_port_that_is_taken():
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        (finding,) = doctor_checks.check_port(port)
        assert finding.status == "note" and f"--status 127.0.0.1:{port}" in finding.todo
    (finding,) = doctor_checks.check_port(port)
    assert finding.status == "good"


def test_the_broker_is_asked():
    broker = moolib.Broker()
    address = broker.listen("127.0.0.1:0")
    (finding,) = doctor_checks.check_broker(address, None)
    assert finding.status == "good" and finding.text == f"answers at {address}; groups and members: none yet"
    del broker
    (finding,) = doctor_checks.check_broker("127.0.0.1:1", None)
    assert finding.status == "bad"
    assert finding.text == "no broker answered at 127.0.0.1:1: connection refused"
    (finding,) = doctor_checks.check_broker("somewhere", None)
    assert finding.status == "bad" and "'somewhere': no port" in finding.text


def test_a_broker_may_have_an_ipv6_address():
    broker = moolib.Broker()
    try:
        address = broker.listen("[::1]:0")
    except moolib.RpcError:
        pytest.skip("no IPv6 here")
    (finding,) = doctor_checks.check_broker(address, None)
    assert finding.status == "good" and address in finding.text


@pytest.mark.parametrize(
    ("warp", "told"), [(True, "2, train on one with machine=gpu"), (False, "device=cuda:0")]
)
def test_a_gpu_is_named_with_what_it_can_do(monkeypatch, warp, told):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr(doctor_checks, "find_spec", lambda name: warp or None)
    finding = list(doctor_checks.check_bf16())[-1]
    assert (finding.name, finding.status) == ("gpu", "good") and told in finding.text
    assert ("herd[gpu]" in finding.todo) is not warp
