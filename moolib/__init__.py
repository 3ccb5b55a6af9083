"""Cooperating peers: remote calls, groups that all-reduce, gradient accumulation, and batched environments.

Each name is imported on first use, so that a broker never imports torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moolib.accumulator.accumulator import Accumulator
    from moolib.batcher import Batcher
    from moolib.broker import Broker
    from moolib.envpool.env_pool import EnvPool, EnvStepperFuture
    from moolib.envpool.env_runner import EnvRunner
    from moolib.envpool.env_stepper import EnvStepper
    from moolib.future import Future, RpcError
    from moolib.group.allreduce import AllReduce
    from moolib.group.group import Group
    from moolib.log import set_log_level, set_logging
    from moolib.rpc.handlers import RpcDeferredReturn
    from moolib.rpc.queue import Queue
    from moolib.rpc.rpc import Rpc, create_uid
    from moolib.rpc.threads import set_max_threads

_MODULES = {
    "accumulator.accumulator": ["Accumulator"],
    "batcher": ["Batcher"],
    "broker": ["Broker"],
    "envpool.env_pool": ["EnvPool", "EnvStepperFuture"],
    "envpool.env_runner": ["EnvRunner"],
    "envpool.env_stepper": ["EnvStepper"],
    "future": ["Future", "RpcError"],
    "group.allreduce": ["AllReduce"],
    "group.group": ["Group"],
    "log": ["set_log_level", "set_logging"],
    "rpc.handlers": ["RpcDeferredReturn"],
    "rpc.queue": ["Queue"],
    "rpc.rpc": ["Rpc", "create_uid"],
    "rpc.threads": ["set_max_threads"],
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Accumulator",
    "AllReduce",
    "Batcher",
    "Broker",
    "EnvPool",
    "EnvRunner",
    "EnvStepper",
    "EnvStepperFuture",
    "Future",
    "Group",
    "Queue",
    "Rpc",
    "RpcDeferredReturn",
    "RpcError",
    "create_uid",
    "set_log_level",
    "set_logging",
    "set_max_threads",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'moolib' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"moolib.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
