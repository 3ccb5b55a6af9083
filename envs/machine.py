"""Where tensors can live, for those who name a device on the command line."""


def check_device(name: str) -> None:
    """Raises ValueError, saying what is allowed, unless tensors can live on this device."""
    import torch  # which the CPU's backend does not need

    allowed = "must be cpu, or cuda:N of a GPU that torch can use"
    try:
        kind = torch.empty(0, device=name).device.type
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"{allowed} ({str(error).splitlines()[0]})") from None
    if kind not in ("cpu", "cuda"):
        raise ValueError(allowed)
