"""Epoch groups of several members in one process, connected through an in-process rendezvous."""

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from moolib.group.process_group import EpochGroup, EpochOver, PeerLost, Rendezvous

HOST = "127.0.0.1"


class Members:
    """`size` members that publish to each other; `over` ends the epoch of all of them."""

    def __init__(self, size: int, timeout: float = 3.0) -> None:
        self.size, self.timeout = size, timeout
        self.over = threading.Event()
        self.stores = [
            Rendezvous(lambda key, value, me=rank: self._publish(me, key, value)) for rank in range(size)
        ]
        self.groups: dict[int, EpochGroup] = {}

    def _publish(self, me: int, key: str, value: bytes) -> None:
        for rank, store in enumerate(self.stores):
            if rank != me:
                store.receive(key, value)

    def form(self, rank: int) -> EpochGroup:
        group = EpochGroup(self.stores[rank], rank, self.size, HOST, self.over.is_set, self.timeout)
        self.groups[rank] = group
        return group

    def run(self, member, ranks=None):
        """Run `member(rank)` for all ranks at the same time; return the results."""
        ranks = range(self.size) if ranks is None else ranks
        with ThreadPoolExecutor(self.size) as pool:
            return [f.result(20) for f in [pool.submit(member, rank) for rank in ranks]]

    def abandon(self) -> None:
        for group in self.groups.values():
            group.abandon()


@pytest.mark.parametrize("size", [2, 3, 5])
def test_all_reduce_gives_every_member_the_same_bits(size):
    members = Members(size)
    inputs = [torch.randn(1001, generator=torch.Generator().manual_seed(r)) for r in range(size)]

    def member(rank):
        group, tensor = members.form(rank), torch.empty(1001)

        def filled_one_after_the_other():
            for half, given in zip(tensor.chunk(2), inputs[rank].chunk(2), strict=True):
                half.copy_(given)
                yield half

        group.all_reduce(filled_one_after_the_other())
        return tensor

    results = members.run(member)
    members.abandon()
    assert all(torch.equal(results[0], result) for result in results)
    torch.testing.assert_close(results[0].double(), sum(i.double() for i in inputs), rtol=1e-5, atol=1e-5)


def test_all_gather_keeps_the_order_of_ranks():
    members = Members(3)
    results = members.run(lambda rank: members.form(rank).all_gather(torch.tensor([rank, 10 * rank])))
    members.abandon()
    assert all(result.tolist() == [[0, 0], [1, 10], [2, 20]] for result in results)


def test_broadcast_waits_for_a_source_that_takes_its_time():
    members = Members(3)

    def member(rank):
        group = members.form(rank)
        if rank == 1:
            time.sleep(0.1)  # longer than the slices of a wait
        tensor = torch.full((5,), float(rank))
        group.broadcast(tensor, source=1)
        return tensor.tolist()

    assert members.run(member) == [[1, 1, 1, 1, 1]] * 3
    members.abandon()


def test_the_end_of_the_epoch_ends_a_reduction_that_a_member_never_joins():
    members = Members(2)

    def member(rank):
        group = members.form(rank)
        if rank == 1:
            time.sleep(0.1)
            members.over.set()
            return
        with pytest.raises(EpochOver):
            group.all_reduce([torch.ones(3), torch.ones(5)])

    members.run(member)
    started = time.monotonic()
    members.abandon()
    assert (
        time.monotonic() - started < members.timeout / 2
    )  # dropping the group must not wait for the operation


def test_the_end_of_the_epoch_ends_forming():
    members = Members(2)
    threading.Timer(0.1, members.over.set).start()
    with pytest.raises(EpochOver):
        members.form(0)


def test_a_closed_rendezvous_ends_forming():
    members = Members(2)
    threading.Timer(0.1, members.stores[0].close).start()
    with pytest.raises(PeerLost):
        members.form(0)


def test_a_lost_connection_is_an_error():
    members = Members(2)

    def member(rank):
        group = members.form(rank)
        group.all_reduce([torch.ones(1)])
        if rank == 1:
            group.abandon()  # nothing is pending: the group is destroyed immediately
            return
        with pytest.raises(PeerLost):
            group.all_reduce([torch.ones(1)])

    members.run(member)
    members.abandon()


def test_abandoned_groups_give_back_their_threads():
    def threads() -> int:
        with open("/proc/self/status") as status:
            return int(next(line for line in status if line.startswith("Threads:")).split()[1])

    members = Members(2)
    members.run(members.form)
    members.abandon()
    members.groups.clear()
    time.sleep(0.3)
    before = threads()
    for _ in range(5):
        members = Members(2)
        members.run(members.form)
        members.abandon()
        members.groups.clear()
    deadline = time.monotonic() + 5
    while threads() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert threads() <= before


def test_a_program_that_ends_while_groups_form_ends_in_order():
    """A thread that returned from gloo to a finished interpreter would abort the process."""
    code = """
import contextlib, threading, time
from moolib.group.process_group import EpochGroup, EpochOver, Rendezvous

def form():
    with contextlib.suppress(EpochOver):
        EpochGroup(Rendezvous(lambda key, value: None), 0, 2, "127.0.0.1", over.is_set, 20)

over = threading.Event()
threads = [threading.Thread(target=form) for _ in range(48)]
for thread in threads:
    thread.start()
time.sleep(0.2)
over.set()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
