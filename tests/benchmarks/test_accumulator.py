"""The benchmark of the Accumulator: its processes end in order."""

import torch.distributed as dist

from benchmarks.accumulator import bare_gloo, measure


def test_bare_gloo_destroys_its_group(tmp_path):
    assert bare_gloo(0, 1, 10, 3, str(tmp_path / "store")) > 0
    assert not dist.is_initialized()


def test_processes(tmp_path):
    rates = measure(2, 1000, 20, ("gloo", str(tmp_path / "store")))
    assert len(rates) == 2 and min(rates) > 0
