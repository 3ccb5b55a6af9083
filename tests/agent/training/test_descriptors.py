"""The watch over file descriptors: quiet at first, then once for each doubling."""

import os

from agent.training import descriptors


def test_leaked_descriptors_are_told_once_for_each_doubling():
    watch = descriptors.DescriptorWatch()
    leaked = [os.open("/dev/null", os.O_RDONLY) for _ in range(descriptors.SUSPICIOUS - 1)]
    try:
        assert watch.warning() is None
        leaked.append(os.open("/dev/null", os.O_RDONLY))
        warning = watch.warning()
        assert warning is not None and f", {descriptors.SUSPICIOUS} more than at the start" in warning
        assert watch.warning() is None
        leaked += [os.open("/dev/null", os.O_RDONLY) for _ in range(descriptors.SUSPICIOUS)]
        assert f", {2 * descriptors.SUSPICIOUS} more than" in str(watch.warning())
    finally:
        for descriptor in leaked:
            os.close(descriptor)
    assert watch.warning() is None


def test_a_system_without_proc_is_not_watched(monkeypatch, tmp_path):
    monkeypatch.setattr(descriptors, "DIRECTORY", tmp_path / "missing")
    assert descriptors.DescriptorWatch().warning() is None
