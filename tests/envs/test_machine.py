"""The machine: cores that the process may use, and devices that exist."""

import os
import re

import pytest

from envs import machine


@pytest.fixture(autouse=True)
def _no_quota(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "OWN_CGROUPS", tmp_path / "absent")


def test_cores_are_those_of_the_affinity_mask(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 3, 5}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert machine.cores() == 3


@pytest.mark.parametrize(("count", "expected"), [(8, 8), (None, 1)])
def test_cores_without_affinity_masks(monkeypatch, count, expected):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    assert machine.cores() == expected


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/", {"cpu.max": "200000 100000"}, 2),  # a container's own view
        ("0::/", {"cpu.max": "max 100000"}, 8),
        ("0::/", {"cpu.max": "250000 100000"}, 3),
        ("0::/", {"cpu.max": "10000 100000"}, 1),
        ("0::/", {"cpu.max": "9900000 100000"}, 8),
        ("0::/a/b", {"a/b/cpu.max": "400000 100000", "a/cpu.max": "150000 50000"}, 3),
        ("0::/a/b", {"a/b/cpu.max": "max 100000", "a/cpu.max": "max 100000", "cpu.max": "50000 50000"}, 1),
        ("0::/a/b", {"other/cpu.max": "100000 100000"}, 8),
        ("0::/a", {"a/cpu.max": "nonsense"}, 8),
        (
            "3:cpu,cpuacct:/job\n1:memory:/",
            {
                "cpu,cpuacct/job/cpu.cfs_quota_us": "300000",
                "cpu,cpuacct/job/cpu.cfs_period_us": "100000",
                "cpu,cpuacct/cpu.cfs_quota_us": "-1",
                "cpu,cpuacct/cpu.cfs_period_us": "100000",
            },
            3,
        ),
        (
            "3:cpuset:/job\n2:cpu:/out/of/sight",  # a container sees the path of its host
            {"cpu/cpu.cfs_quota_us": "200000", "cpu/cpu.cfs_period_us": "100000"},
            2,
        ),
        ("0::/../x", {"cpu.max": "200000 100000"}, 2),  # outside the namespace's root
    ],
)
def test_the_quota_of_the_cgroup_limits_the_cores(monkeypatch, tmp_path, own, files, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    monkeypatch.setattr(machine, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(machine, "OWN_CGROUPS", tmp_path / "own")
    (tmp_path / "own").write_text(own + "\n")
    for name, text in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    assert machine.cores() == expected


def test_cores_where_cgroups_are_unknown(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    monkeypatch.setattr(machine, "OWN_CGROUPS", tmp_path / "absent")
    assert machine.cores() == 2


def test_the_cpu_is_a_device():
    machine.check_device("cpu")


@pytest.mark.parametrize("name", ["meta", "cuda:17", "toaster"])
def test_other_devices_are_refused_in_one_line(name):
    with pytest.raises(ValueError, match=r"must be cpu, or cuda:N of a GPU that torch can use") as error:
        machine.check_device(name)
    assert re.search("\n", str(error.value)) is None
