"""CUDA graphs: work that is launched again and again without the CPU's help. On a CPU it is simply called.

Torch and Warp each record their own launches, because each manages its own memory while it records. Graphs
replayed one after the other on one stream need no waiting in between.
"""

from collections.abc import Callable

import torch
import warp as wp

WARMUP = 3  # calls before recording, in which kernels are compiled, constants cached and workspaces made


def record_torch(
    run: Callable[[], None], device: torch.device, generator: torch.Generator
) -> Callable[[], None]:
    """Record torch's operations on fixed tensors, to be replayed often.

    Args:
        run: The operations; they must not read from the device nor branch on its values.
        device: Where they run.
        generator: The source of their random numbers.

    Returns:
        A function that launches the recorded graph; on a CPU, ``run`` itself.
    """
    if device.type != "cuda":
        return run
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(WARMUP):
            run()
    torch.cuda.current_stream(device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    with torch.cuda.device(device), torch.cuda.graph(graph):
        run()
    return graph.replay


def record_warp(run: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """Record Warp's launches like ``record_torch`` torch's; they are replayed on torch's current stream."""
    if device.type != "cuda":
        return run
    for _ in range(WARMUP):
        run()
    warp_device = wp.device_from_torch(device)
    wp.synchronize_device(warp_device)
    with wp.ScopedCapture(device=warp_device) as capture:
        run()
    return lambda: wp.capture_launch(capture.graph, stream=wp.stream_from_torch(device))
