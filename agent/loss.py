"""The loss as the machine runs it: in float32 or bf16, compiled or not."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import fields

import torch
from torch import Tensor

from agent.algorithms import loss
from agent.config import Config
from agent.model import Policy
from agent.rollout import Minibatch

log = logging.getLogger(__name__)

LossFunction = Callable[[Minibatch], tuple[Tensor, Tensor]]


def make_loss(config: Config, policy: Policy) -> LossFunction:
    """`minibatch -> (loss, metrics)` with `config.precision` and `config.compile`.

    Where compiling fails (no C++ compiler, say), the first call warns and goes on without.
    """
    names = [f.name for f in fields(Minibatch) if f.name != "memory"]
    device_type = torch.device(config.device).type

    def evaluate(memory: tuple[Tensor, ...], *tensors: Tensor) -> tuple[Tensor, Tensor]:
        batch = Minibatch(**dict(zip(names, tensors, strict=True)), memory=memory)
        with torch.autocast(device_type, torch.bfloat16, enabled=config.precision == "bf16"):
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
