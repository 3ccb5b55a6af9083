"""The array language: the same calls give the same numbers on NumPy and on torch."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from envs import arrays

LIKES = [np.zeros(1, np.float32), np.zeros(1), torch.zeros(1), torch.zeros(1, dtype=torch.float64)]


@pytest.mark.parametrize("like", LIKES, ids=lambda like: f"{type(like).__name__} {like.dtype}")
def test_constants_and_zeros_take_on_the_type(like):
    values = arrays.constant((1.0, 2.5), like)
    assert type(values) is type(like) and values.dtype == like.dtype
    np.testing.assert_array_equal(np.asarray(values), [1.0, 2.5])
    assert arrays.constant((1.0, 2.5), like) is values, "cached"
    empty = arrays.zeros((2, 3), like)
    assert type(empty) is type(like) and empty.dtype == like.dtype and empty.shape == (2, 3)
    for name in ("int32", "bool"):
        assert str(arrays.zeros((2,), like, name).dtype).removeprefix("torch.") == name


@pytest.mark.parametrize("target", [np.zeros((2, 3)), torch.zeros(2, 3)], ids=["NumPy", "torch"])
def test_values_of_the_host_are_written_and_read_back(target):
    arrays.write(target, np.array([1.0, 2.0, 3.0]))
    copy = arrays.to_host(target)
    target[0] = 9.0
    assert type(copy) is np.ndarray
    np.testing.assert_array_equal(copy, [[1, 2, 3], [1, 2, 3]])


def test_every_function_of_the_protocol_exists_in_both():
    names = [name for name in vars(arrays.Functions) if not name.startswith("_")]
    names += arrays.Functions.__annotations__
    assert len(names) > 20
    assert [name for name in names if not (hasattr(np, name) and hasattr(torch, name))] == []


def test_robots_on_the_cpu_need_no_torch():
    program = """
import sys
import numpy as np
from envs import EnvConfig, make_pool
pool = make_pool(EnvConfig.preset("go2"), 2, 1, seed=0, num_threads=1)
pool.step(0, np.zeros((2, 12), np.float32)).result()
pool.close()
print("torch" in sys.modules)
"""
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert shown.stdout == "False\n", shown.stderr
