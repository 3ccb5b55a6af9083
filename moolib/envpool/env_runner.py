"""The worker's side of an `EnvPool`: a process that steps the environments in some rows of every batch.

It is a fresh interpreter (no fork of a threaded process) that inherits one end of a socket. From its standard
input, which its parent keeps open as long as the parent lives, it reads `create_env`, pickled by the program
itself. Messages are single packets, whose first byte is the kind:

| from the worker | |
|---|---|
| SPEC | msgpack: the fields of an observation, the field of an action or None |
| DONE + batch | the batch is stepped |
| ERROR + text | an environment raised; the text is the traceback |

The parent answers SPEC with msgpack (all fields, batch size) and the descriptor of the shared memory, and
then sends the numbers of the batches to step (2 bytes each). A closed socket ends the worker.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import pickle
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgpack
import numpy as np

from moolib.envpool import env_memory
from moolib.envpool.env_memory import ACTION, Field, Fields

SPEC, DONE, ERROR = b"S", b"D", b"E"
MAX_PACKET = 1 << 17  # bytes; below the default buffer of a socket
CLOSE_GRACE = 1.0  # s to close the environments when the parent has gone
RESERVED = ("done", "reward", "terminated", "truncated")

Target = tuple[str, tuple[Any, ...], np.ndarray, tuple[int, ...]]
"""Of one leaf of an observation: name, path in the observation, shared array, and shape of a row."""


class EnvRunner:
    """Steps some environments of each batch, one after the other, and writes the results to shared memory."""

    def __init__(self, create_env: Callable[..., Any], batches: Sequence[range]) -> None:
        """Make the environments; reset the first to learn the form of its observations.

        Args:
            create_env: See `EnvPool`.
            batches: The indices of our environments in each batch.
        """
        if _takes_an_argument(create_env):
            self._envs = [[create_env(index) for index in indices] for indices in batches]
        else:
            self._envs = [[create_env() for _ in indices] for indices in batches]
        num_batches = len(batches)
        self._first_observation = [_reset(self._envs[0][0])]  # used at the first step of that environment
        self._fresh = [True] * num_batches
        self._paths = dict(_leaves(self._first_observation[0]))
        self.observation = {
            name: _field(name, _at(self._first_observation[0], path)) for name, path in self._paths.items()
        }
        self.action = _action_field(self._envs[0][0])

    def attach(self, batches: list[dict[str, np.ndarray]], rows: slice) -> None:
        """Use these rows of the shared arrays from now on."""
        self._arrays = [{name: array[rows] for name, array in batch.items()} for batch in batches]
        self._targets = [self._target_arrays(arrays, "") for arrays in self._arrays]
        self._final_targets = [self._target_arrays(arrays, "final_") for arrays in self._arrays]

    def step(self, batch: int) -> None:
        """Step the environments of a batch with the actions in shared memory; reset those that end."""
        arrays, targets = self._arrays[batch], self._targets[batch]
        if self._fresh[batch]:
            self._fresh[batch] = False
            for row, env in enumerate(self._envs[batch]):
                first = self._first_observation and env is self._envs[0][0]
                _write(targets, row, self._first_observation.pop() if first else _reset(env))
            results = [(0.0, False, False)] * len(self._envs[batch])
        else:
            actions = arrays[ACTION].tolist() if arrays[ACTION].ndim == 1 else arrays[ACTION].copy()
            results = [self._step_env(batch, row, action) for row, action in enumerate(actions)]
        reward, terminated, truncated = zip(*results, strict=True)
        arrays["reward"][:] = reward
        arrays["terminated"][:] = terminated
        arrays["truncated"][:] = truncated
        np.logical_or(arrays["terminated"], arrays["truncated"], out=arrays["done"])

    def close(self) -> None:
        """Close the environments."""
        for envs in self._envs:
            for env in envs:
                with contextlib.suppress(Exception):
                    env.close()

    def _step_env(self, batch: int, row: int, action: Any) -> tuple[float, bool, bool]:
        """Step one environment, with either API; return (reward, terminated, truncated)."""
        env = self._envs[batch][row]
        result = env.step(action)
        if len(result) == 5:
            observation, reward, terminated, truncated, _ = result
        else:
            observation, reward, done, info = result
            truncated = bool(done) and bool(info.get("TimeLimit.truncated", False))
            terminated = bool(done) and not truncated
        if terminated or truncated:
            _write(self._final_targets[batch], row, observation)
            observation = _reset(env)
        _write(self._targets[batch], row, observation)
        return reward, terminated, truncated

    def _target_arrays(self, arrays: dict[str, np.ndarray], prefix: str) -> list[Target]:
        targets = [(name, path, arrays[prefix + name]) for name, path in self._paths.items()]
        return [(name, path, array, array.shape[1:]) for name, path, array in targets]


def _takes_an_argument(create_env: Callable[..., Any]) -> bool:
    """Return True if the function has a positional parameter without a default."""
    try:
        parameters = inspect.signature(create_env).parameters.values()
    except (TypeError, ValueError):  # some built-in functions have no signature
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(p.kind in positional and p.default is p.empty for p in parameters)


def _reset(env: Any) -> Any:
    """Reset and return the first observation, with either API: Gymnasium returns (observation, info)."""
    result = env.reset()
    with_info = isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)
    return result[0] if with_info else result


def _leaves(observation: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield (name, path) of each array: `state` if it is the only one, else its keys joined by "/"."""
    if not isinstance(observation, (dict, tuple)):
        yield "/".join(map(str, path)) if path else "state", path
        return
    items = observation.items() if isinstance(observation, dict) else enumerate(observation)
    for key, item in items:
        yield from _leaves(item, (*path, key))


def _at(observation: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        observation = observation[key]
    return observation


def _field(name: str, value: Any) -> Field:
    array = np.asarray(value)
    if array.dtype.kind not in "biufc":
        raise TypeError(f"observation {name!r}: dtype {array.dtype} is not numeric")
    if name in RESERVED or name.startswith(("final_", "@")):
        raise ValueError(f"observation {name!r}: the name is reserved")
    return Field(array.dtype.newbyteorder("=").str, array.shape)


def _action_field(env: Any) -> Field | None:
    """Return the form of an action, if the environment has an action space that is a single array."""
    space = getattr(env, "action_space", None)
    dtype, shape = getattr(space, "dtype", None), getattr(space, "shape", None)
    return None if dtype is None or shape is None else Field(np.dtype(dtype).str, tuple(shape))


def _write(targets: list[Target], row: int, observation: Any) -> None:
    """Write one observation.

    Raises:
        ValueError: Its shape or kind of dtype differs from that of the first observation.
    """
    for name, path, array, shape in targets:
        value = observation
        for key in path:
            value = value[key]
        if type(value) is not np.ndarray:
            value = np.asarray(value)
        if value.shape != shape or (
            value.dtype is not array.dtype and not np.can_cast(value.dtype, array.dtype, "same_kind")
        ):
            got, first = f"{value.dtype}{list(value.shape)}", f"{array.dtype}{list(shape)}"
            raise ValueError(f"observation {name!r}: {got}, but the first one was {first}")
        array[row] = value


def main(descriptor: int) -> None:
    """Run a worker; `descriptor` is its end of the socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    sock = socket.socket(fileno=descriptor)
    try:
        create_env, batch_size, num_batches, start, stop = pickle.load(sys.stdin.buffer)
        threading.Thread(target=_end_with_parent, daemon=True).start()
        firsts = range(0, num_batches * batch_size, batch_size)
        runner = EnvRunner(create_env, [range(first + start, first + stop) for first in firsts])
        sock.send(SPEC + msgpack.packb([runner.observation, runner.action]))
        _serve(sock, runner, num_batches, slice(start, stop))
        runner.close()
    except ConnectionError:
        pass
    except BaseException:
        with contextlib.suppress(OSError):
            sock.send(ERROR + traceback.format_exc().encode()[-MAX_PACKET + 1 :])
            sock.recv(1)  # until the parent has closed its end


def _serve(sock: socket.socket, runner: EnvRunner, num_batches: int, rows: slice) -> None:
    message, descriptors, _, _ = socket.recv_fds(sock, MAX_PACKET, 1)
    if not message:
        return
    fields, batch_size = msgpack.unpackb(message)
    layout: Fields = {name: Field(dtype, tuple(shape)) for name, (dtype, shape) in fields.items()}
    runner.attach(env_memory.arrays(descriptors[0], layout, batch_size, num_batches), rows)
    os.close(descriptors[0])
    while message := sock.recv(2):
        runner.step(int.from_bytes(message, "big"))
        sock.send(DONE + message)


def _end_with_parent() -> None:
    """Once the parent has gone, end the process, even within a step that never returns."""
    os.read(sys.stdin.fileno(), 1)  # not through `sys.stdin`, whose lock the interpreter needs to end
    time.sleep(CLOSE_GRACE)
    os._exit(1)
