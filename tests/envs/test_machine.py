"""The machine: cores that the process may use, and devices that exist."""

import os
import re

import pytest

from envs import machine


def test_cores_are_those_of_the_affinity_mask(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 3, 5}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert machine.cores() == 3


@pytest.mark.parametrize(("count", "expected"), [(8, 8), (None, 1)])
def test_cores_without_affinity_masks(monkeypatch, count, expected):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    assert machine.cores() == expected


def test_the_cpu_is_a_device():
    machine.check_device("cpu")


@pytest.mark.parametrize("name", ["meta", "cuda:17", "toaster"])
def test_other_devices_are_refused_in_one_line(name):
    with pytest.raises(ValueError, match=r"must be cpu, or cuda:N of a GPU that torch can use") as error:
        machine.check_device(name)
    assert re.search("\n", str(error.value)) is None
