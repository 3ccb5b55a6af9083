"""Cooperating peers: remote calls, groups that all-reduce, gradient accumulation over them, batched
environments.

Names are imported when they are first used, so that a broker never imports torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moolib.accumulator import Accumulator
    from moolib.batcher import Batcher
    from moolib.broker import Broker
    from moolib.env_pool import EnvPool, EnvRunner, EnvStepper, EnvStepperFuture
    from moolib.future import Future, RpcError
    from moolib.group import AllReduce, Group
    from moolib.handlers import RpcDeferredReturn
    from moolib.log import set_log_level, set_logging
    from moolib.pool import set_max_threads
    from moolib.rpc import Rpc, create_uid
    from moolib.rpc_queue import Queue

_MODULES = {
    "accumulator": ["Accumulator"],
    "batcher": ["Batcher"],
    "broker": ["Broker"],
    "env_pool": ["EnvPool", "EnvRunner", "EnvStepper", "EnvStepperFuture"],
    "future": ["Future", "RpcError"],
    "group": ["AllReduce", "Group"],
    "handlers": ["RpcDeferredReturn"],
    "log": ["set_log_level", "set_logging"],
    "pool": ["set_max_threads"],
    "rpc": ["Rpc", "create_uid"],
    "rpc_queue": ["Queue"],
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
