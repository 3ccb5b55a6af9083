"""The machine: the cores that this process may use, and the devices where tensors can live."""

import math
import os
from collections.abc import Iterator
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")  # mount point; the controller of cgroup v1 is below it
OWN_CGROUPS = Path("/proc/self/cgroup")  # a line for each hierarchy: number:controllers:path


def cores() -> int:
    """Return the number of cores that this process may use, at least 1.

    The least of its affinity mask and the CPU quota of its cgroup, as containers and cluster jobs have one.
    """
    known = hasattr(os, "sched_getaffinity")  # not on macOS
    usable = len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1
    return max(1, math.ceil(min([usable, *_quotas()])))


def _quotas() -> Iterator[float]:
    """Yield the CPU quotas, in cores, of this process's cgroups and of those around them."""
    try:
        lines = OWN_CGROUPS.read_text().splitlines()
    except OSError:
        return  # not Linux
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        roots = [CGROUPS / controllers, CGROUPS / "cpu"] if controllers else [CGROUPS, CGROUPS / "unified"]
        for root in roots:
            own = root / path.lstrip("/")
            for directory in (own, *own.parents):
                if directory.is_relative_to(root):
                    yield from _quota(directory)


def _quota(directory: Path) -> Iterator[float]:
    """Yield the quota, in cores, that one cgroup's files state, if there is one."""
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        try:
            quota, period = " ".join((directory / name).read_text() for name in names).split()
            if quota != "max" and int(quota) > 0 and int(period) > 0:
                yield int(quota) / int(period)
        except (OSError, ValueError):  # no such file, or not in this form
            continue


def check_device(name: str) -> None:
    """Check that tensors can live on a device.

    Raises:
        ValueError: If they cannot; one line that says which devices are allowed.
    """
    import torch  # here, because the CPU backend works without it

    allowed = "must be cpu, or cuda:N of a GPU that torch can use"
    try:
        kind = torch.empty(0, device=name).device.type
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"{allowed} ({str(error).splitlines()[0]})") from None
    if kind not in ("cpu", "cuda"):
        raise ValueError(allowed)
