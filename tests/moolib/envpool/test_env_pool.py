"""Environment pools: their results, errors and processes."""

from __future__ import annotations

import errno
import functools
import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

from moolib import EnvPool, RpcError
from rigs import example_envs as envs
from rigs.processes import wait_until


@pytest.fixture
def pool():
    """Make pools that are closed at the end."""
    made = []

    def make(create_env, num_processes=2, batch_size=4, num_batches=1, **kwargs):
        made.append(EnvPool(create_env, num_processes, batch_size, num_batches, **kwargs))
        return made[-1]

    yield make
    for each in made:
        each.close()


def children(of: int | str = "self") -> set[int]:
    """Return the children of a process, including zombies."""
    pids: set[int] = set()
    for task in os.listdir(f"/proc/{of}/task"):
        with open(f"/proc/{of}/task/{task}/children") as file:
            pids |= {int(pid) for pid in file.read().split()}
    return pids


def test_episodes_of_the_gymnasium_api(pool):
    p = pool(envs.Counter)
    first = p.step(0, torch.tensor([9, 9, 9, 9])).result(20)
    assert first["state"].tolist() == [[0, 0]] * 4 and first["state"].dtype == torch.int32
    assert first["reward"].tolist() == [0] * 4 and first["reward"].dtype == torch.float32
    assert not first["done"].any() and first["done"].dtype == torch.bool
    for step in (1, 2):
        got = p.step(0, torch.tensor([5, -6, 7, 8])).result(20)
        assert got["state"].tolist() == [[step, 5], [step, -6], [step, 7], [step, 8]]
        assert got["reward"].tolist() == [5, -6, 7, 8] and not got["done"].any()
    got = p.step(0, torch.tensor([1, 2, 3, 4])).result(20)
    assert got["done"].all() and got["terminated"].all() and not got["truncated"].any()
    assert got["reward"].tolist() == [1, 2, 3, 4]
    assert got["state"].tolist() == [[0, 0]] * 4
    assert got["final_state"].tolist() == [[3, 1], [3, 2], [3, 3], [3, 4]]
    got = p.step(0, torch.tensor([1, 2, 3, 4])).result(20)
    assert got["state"].tolist() == [[1, 1], [1, 2], [1, 3], [1, 4]] and not got["done"].any()


def test_episodes_of_the_older_api(pool):
    p = pool(envs.OldCounter, batch_size=3)
    p.step(0, torch.zeros(3, dtype=torch.int64)).result(20)
    got = p.step(0, torch.tensor([1, 10, 2])).result(20)
    assert got["done"].tolist() == got["truncated"].tolist() == [False, True, False]
    assert not got["terminated"].any() and got["final_state"][1].tolist() == [1, 10]
    p.step(0, torch.tensor([1, 1, 1])).result(20)
    got = p.step(0, torch.tensor([1, 1, 1])).result(20)
    assert got["terminated"].tolist() == [True, False, True] and not got["truncated"].any()


def test_nested_observations_and_continuous_actions(pool):
    p = pool(envs.Nested)
    action = torch.arange(24, dtype=torch.float64).view(4, 2, 3)
    p.step(0, action).result(20)
    got = p.step(0, action).result(20)
    assert (
        got["image"].shape == (4, 2, 2, 3) and got["image"].dtype == torch.uint8 and (got["image"] == 7).all()
    )
    assert torch.equal(got["sum"], action.float())
    assert got["pair/0"].dtype == torch.float64 and got["pair/0"].tolist() == action.sum((1, 2)).tolist()
    assert got["pair/1"].all() and got["pair/1"].dtype == torch.bool
    got = p.step(0, torch.full((4, 2, 3), 100.0)).result(20)
    assert torch.equal(got["sum"], 2 * action.float())  # an environment may keep its action


def test_tuples_of_observations(pool):
    p = pool(envs.Pair, batch_size=2)
    p.step(0, np.ones((2, 3))).result(20)
    got = p.step(0, np.array([[1.0, 2, 3], [4, 5, 6]])).result(20)
    assert (
        got["0"].tolist() == [[6, 6], [15, 15]]
        and got["1"].tolist() == [1, 1]
        and got["1"].dtype == torch.int16
    )
    got = p.step(0, np.zeros((2, 3))).result(20)
    assert got["truncated"].all() and got["done"].all() and not got["terminated"].any()
    with pytest.raises(RuntimeError, match=r"dtype torch\.int64, but the environments take float64"):
        p.step(0, np.zeros((2, 3), int))


def test_environments_are_reset_only_when_they_must(pool):
    p = pool(envs.Resets, num_processes=1, batch_size=2, num_batches=2)
    for batch in (1, 0):
        first = p.step(batch, torch.zeros(2, dtype=torch.int64)).result(20)
        assert first["state"].tolist() == [[1, 0], [1, 0]]
        for _ in range(3):
            last = p.step(batch, torch.zeros(2, dtype=torch.int64)).result(20)
        assert last["done"].all() and last["state"].tolist() == [[2, 0], [2, 0]]


def test_batches_are_independent_and_overlap(pool):
    p = pool(envs.Counter, num_processes=3, batch_size=5, num_batches=2)
    actions = [torch.full((5,), 3), torch.full((5,), 4)]
    for step in range(3):
        futures = [p.step(i, actions[i]) for i in range(2)]
        for i in (1, 0):
            assert futures[i].result(20)["state"].tolist() == [[step, 3 + i if step else 0]] * 5


def test_results_are_views_until_the_next_step(pool):
    p = pool(envs.Counter)
    action = torch.tensor([1, 2, 3, 4])
    first = p.step(0, action).result(20)
    second = p.step(0, action).result(20)
    assert first["state"].data_ptr() == second["state"].data_ptr()
    assert first["state"].tolist() == [[1, 1], [1, 2], [1, 3], [1, 4]]


def test_closures_and_started_threads(pool):
    """No fork: threads that hold locks do no harm, and `create_env` need not be importable."""
    length = 1
    held = threading.Lock()
    held.acquire()
    threading.Thread(target=held.acquire, daemon=True).start()
    p = pool(lambda: envs.Counter(length))
    action = torch.zeros(4, dtype=torch.int64)
    p.step(0, action).result(20)
    assert p.step(0, action).result(20)["done"].all()
    held.release()


def test_every_process_steps_its_share(pool):
    before = children()
    p = pool(envs.Pid, num_processes=3, batch_size=7)
    pids = p.step(0, torch.zeros(7, dtype=torch.int64)).result(20)["state"].flatten().tolist()
    assert set(pids) == children() - before and sorted(pids.count(pid) for pid in set(pids)) == [2, 2, 3]


@pytest.mark.parametrize(
    "action, text",
    [
        (torch.zeros(3, dtype=torch.int64), r"shape \[3\]"),
        (torch.tensor(1), r"shape \[\]"),
        (torch.zeros(4, 1, dtype=torch.int64), r"shape \[4, 1\], but the environments take \[4\]"),
        (torch.zeros(4), "dtype torch.float32, but the environments take int64"),
    ],
)
def test_wrong_actions(pool, action, text):
    p = pool(envs.Counter)
    p.step(0, torch.zeros(4, dtype=torch.int32)).result(20)
    with pytest.raises(RuntimeError, match=text):
        p.step(0, action)
    assert p.step(0, torch.zeros(4, dtype=torch.int64)).result(20)["state"].tolist() == [[1, 0]] * 4


def test_wrong_indices_and_numbers(pool):
    p = pool(envs.Counter)
    for index in (-1, 1):
        with pytest.raises(RuntimeError, match=f"batch {index}: 0 to 0"):
            p.step(index, torch.zeros(4, dtype=torch.int64))
    for wrong in ((0, 1, 1), (1, 0, 1), (1, 1, 0)):
        with pytest.raises(RuntimeError, match="0: 1 to 65535"):
            EnvPool(envs.Counter, *wrong)


def test_a_batch_in_flight_cannot_be_stepped(pool):
    p = pool(envs.Trouble)
    p.step(0, torch.zeros(4, dtype=torch.int64)).result(20)
    slow = p.step(0, torch.tensor([0, 0, 0, 3]))
    assert not slow.done()
    with pytest.raises(RuntimeError, match="batch 0 is being stepped"):
        p.step(0, torch.zeros(4, dtype=torch.int64))
    with pytest.raises(RuntimeError, match=r"^The operation timed out$"):
        slow.result(0.05)


def test_a_batch_whose_result_was_not_taken_cannot_be_stepped(pool):
    p = pool(envs.Counter, num_batches=2)
    action = torch.tensor([1, 2, 3, 4])
    first = p.step(0, action)
    for wait in (first.done, lambda: wait_until(first.done), first.wait):
        wait()
        with pytest.raises(RuntimeError, match="batch 0 is being stepped: take its result first"):
            p.step(0, action)
    p.step(1, action).result(20)
    first.result(20)
    second = p.step(0, action)
    first.result(20)
    with pytest.raises(RuntimeError, match="batch 0 is being stepped"):  # that was the first step's
        p.step(0, action)
    assert second.result(20)["state"].tolist() == [[1, 1], [1, 2], [1, 3], [1, 4]]
    assert p.step(0, action).result(20)["state"].tolist() == [[2, 1], [2, 2], [2, 3], [2, 4]]


@pytest.mark.parametrize(
    "action, text",
    [
        (torch.zeros(4), "dtype torch.float32, but environments without an action_space take integers"),
        (np.zeros((4, 2)), "dtype torch.float64"),
        (torch.zeros(4, dtype=torch.bfloat16), "dtype torch.bfloat16"),
        (torch.zeros(4, dtype=torch.complex64), "dtype torch.complex64"),
        (torch.zeros(5, dtype=torch.int64), r"shape \[5\], but \[4, …\] is needed"),
    ],
)
def test_wrong_actions_of_environments_without_an_action_space(pool, action, text):
    p = pool(envs.OldCounter)
    with pytest.raises(RuntimeError, match=text):
        p.step(0, action)
    assert p.step(0, torch.zeros(4, dtype=torch.int64)).result(20)["state"].tolist() == [[0, 0]] * 4


@pytest.mark.parametrize("num_processes", [1, 2, 3])
@pytest.mark.parametrize("create", [envs.Numbered, lambda number: envs.Numbered(number)])
def test_environments_may_differ_by_their_index(pool, create, num_processes):
    """The same environments for any number of processes."""
    p = pool(create, num_processes, batch_size=5, num_batches=2)
    for batch in (1, 0):
        got = p.step(batch, torch.zeros(5, dtype=torch.int64)).result(20)["state"].tolist()
        numbers = range(5 * batch, 5 * batch + 5)
        assert got == [[n, np.random.default_rng(n).integers(1000)] for n in numbers]


def test_parameters_with_defaults_are_left_alone(pool):
    p = pool(functools.partial(envs.Numbered, index=7))
    assert p.step(0, torch.zeros(4, dtype=torch.int64)).result(20)["state"][:, 0].tolist() == [7] * 4


def test_systems_without_packet_sockets(monkeypatch):
    def unsupported(*_):
        raise OSError(errno.EPROTONOSUPPORT, "Protocol not supported")

    monkeypatch.setattr("socket.socketpair", unsupported)
    with pytest.raises(RpcError, match="EnvPool runs on Linux only: no packet sockets"):
        EnvPool(envs.Counter, 1, 1, 1)
    monkeypatch.delattr("socket.SOCK_SEQPACKET")
    with pytest.raises(RpcError, match="EnvPool runs on Linux only"):
        EnvPool(envs.Counter, 1, 1, 1)


@pytest.mark.parametrize(
    "action, text",
    [
        (1, "(?s)rows 2 to 3.*example_envs.py.*ValueError: trouble in the environment"),
        (2, "rows 2 to 3.* was killed by SIGKILL"),
        (4, "ended with exit code 7"),
        (5, r"observation 'state': float64\[5\], but the first one was int32\[2\]"),
        (6, r"observation 'state': float64\[2\], but the first one was int32\[2\]"),
    ],
)
def test_environments_in_trouble(pool, action, text):
    before = children()
    p = pool(envs.Trouble, timeout=20)
    p.step(0, torch.zeros(4, dtype=torch.int64)).result(20)
    future = p.step(0, torch.tensor([0, 0, 0, action]))
    for _ in range(2):
        with pytest.raises(RpcError, match=text):
            future.result(20)
    with pytest.raises(RpcError, match=text):
        p.step(0, torch.zeros(4, dtype=torch.int64)).result(20)
    p.close()
    assert children() <= before


def test_environments_that_cannot_be_made(pool):
    with pytest.raises(RpcError, match=r"(?s)unmakeable.*OSError: no such simulator"):
        pool(envs.unmakeable).step(0, torch.zeros(4)).result(20)


def test_environments_that_differ(pool, tmp_path):
    p = pool(functools.partial(envs.odd_one_out, str(tmp_path / "first")))
    with pytest.raises(RpcError, match=r"environments differ.*state"):
        p.step(0, torch.zeros(4)).result(20)


def test_closing_ends_the_processes_and_their_environments(tmp_path):
    before, descriptors = children(), len(os.listdir("/proc/self/fd"))
    with EnvPool(functools.partial(envs.Closing, str(tmp_path / "one")), 1, 1, 1) as p:
        p.step(0, torch.zeros(1, dtype=torch.int64)).result(20)
    assert (tmp_path / "one").read_text() == "closed" and children() <= before
    with pytest.raises(RpcError, match="closed"):
        p.step(0, torch.zeros(1, dtype=torch.int64)).result(20)
    p = EnvPool(functools.partial(envs.Closing, str(tmp_path / "two")), 1, 1, 1)
    result = p.step(0, torch.zeros(1, dtype=torch.int64)).result(20)
    del p
    gc.collect()
    assert (tmp_path / "two").read_text() == "closed" and children() <= before
    assert result["state"].tolist() == [[0, 0]]  # the memory lives as long as its views
    del result
    assert len(os.listdir("/proc/self/fd")) <= descriptors


def test_workers_end_with_a_killed_parent():
    program = """
import sys, torch, moolib
from rigs import example_envs as envs
pool = moolib.EnvPool(envs.Trouble, 2, 2, 1)
pool.step(0, torch.zeros(2, dtype=torch.int64)).result(20)
pool.step(0, torch.tensor([0, 3]))
print("ready", flush=True)
sys.stdin.read()
"""
    shared = set(os.listdir("/dev/shm"))
    parent = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": "."},
    )
    try:
        assert parent.stdout is not None and parent.stdout.readline() == b"ready\n"
        workers = children(parent.pid)
        assert len(workers) == 2
    finally:
        parent.kill()
        parent.communicate()
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in workers))
    assert set(os.listdir("/dev/shm")) <= shared
