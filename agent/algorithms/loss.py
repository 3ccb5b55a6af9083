"""The loss as the machine runs it: in float32, TF32 or bf16, compiled or not."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import fields

import torch
from torch import Tensor

from agent.algorithms.objective import loss
from agent.algorithms.rollout import Minibatch
from agent.config import Config
from agent.models.policy import Policy

log = logging.getLogger(__name__)

LossFunction = Callable[[Minibatch], tuple[Tensor, Tensor]]


def has_fast_bf16(device_type: str) -> bool:
    """Whether matrices multiply faster in bf16: on a processor with AMX, and on most GPUs."""
    if device_type == "cuda":
        return torch.cuda.is_bf16_supported()
    if not hasattr(torch.cpu, "get_capabilities"):  # in older ones of the torch versions that we allow
        return False
    return bool(torch.cpu.get_capabilities().get("amx_bf16"))


def make_loss(config: Config, policy: Policy) -> LossFunction:
    """`minibatch -> (loss, metrics)` with `config.precision` and `config.compile`.

    `tf32` is a setting of torch's for all products of matrices on the process's cards. Where compiling fails
    (no C++ compiler, say), the first call warns and goes on without.
    """
    names = [f.name for f in fields(Minibatch) if f.name != "memory"]
    device_type = torch.device(config.device).type
    is_bf16 = config.precision == "bf16" or (config.precision == "auto" and has_fast_bf16(device_type))

    if device_type == "cuda":
        torch.set_float32_matmul_precision("high" if config.precision == "tf32" else "highest")

    def evaluate(memory: tuple[Tensor, ...], *tensors: Tensor) -> tuple[Tensor, Tensor]:
        batch = Minibatch(**dict(zip(names, tensors, strict=True)), memory=memory)
        with torch.autocast(device_type, torch.bfloat16, enabled=is_bf16):
            return loss(policy, batch, config.algorithm)

    chosen = torch.compile(evaluate) if config.compile else evaluate

    def call(batch: Minibatch) -> tuple[Tensor, Tensor]:
        nonlocal chosen
        tensors = [getattr(batch, name) for name in names]
        try:
            return chosen(batch.memory, *tensors)
        except Exception as error:
            if chosen is evaluate:
                raise
            chosen = evaluate
            log.warning("compile=true: %s; going on without compiling", str(error).strip().splitlines()[0])
            return evaluate(batch.memory, *tensors)

    return call
