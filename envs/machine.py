"""The machine: the cores that this process may use, and the devices where tensors can live."""

import os


def cores() -> int:
    """Return the number of cores that this process may use, at least 1."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
