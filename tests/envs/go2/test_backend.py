"""Rows of a batch: indices on the host and a mask on a device write the same rows."""

import numpy as np
import pytest
import torch

from envs.go2.backend import IndexedRows, MaskedRows

MASK = np.array([False, True, False, True])


@pytest.mark.parametrize("shape", [(4,), (4, 3), (4, 2, 3)])
@pytest.mark.parametrize("kind", [np.float32, np.int32, bool])
def test_both_write_numbers_and_arrays_into_the_same_rows(shape, kind):
    rng = np.random.default_rng(0)
    before, values = ((10 * rng.normal(size=shape)).astype(kind) for _ in range(2))
    for given in (0, values):
        host, device = before.copy(), torch.tensor(before)
        rows, masked = IndexedRows(np.flatnonzero(MASK)), MaskedRows(torch.tensor(MASK))
        rows.put(host, given if isinstance(given, int) else given[rows.index])
        masked.put(device, given if isinstance(given, int) else torch.tensor(given)[masked.index])
        expected = np.where(MASK.reshape(-1, *[1] * (len(shape) - 1)), given, before)
        np.testing.assert_array_equal(host, expected)
        np.testing.assert_array_equal(device, expected)


def test_only_the_host_knows_that_there_are_none():
    nobody = np.zeros(4, bool)
    rows, masked = IndexedRows(np.flatnonzero(nobody)), MaskedRows(torch.tensor(nobody))
    assert not rows and rows.count == 0
    assert masked and masked.count == 4
    target = torch.ones(4)
    masked.put(target, torch.zeros(4))
    np.testing.assert_array_equal(target, 1.0)
