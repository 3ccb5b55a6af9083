"""Small, predictable environments for tests of EnvPool. They import no torch, so that workers start fast."""

from __future__ import annotations

import os
import signal
import time
from types import SimpleNamespace
from typing import Any

import numpy as np

DISCRETE = SimpleNamespace(dtype=np.dtype(np.int64), shape=())


class Counter:
    """Observes (steps, last action); `length` steps end an episode (terminated). Reward: the action."""

    action_space = DISCRETE

    def __init__(self, length: int = 3) -> None:
        self.length = length

    def reset(self) -> Any:
        self.steps = 0
        return np.array([0, 0], np.int32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        observation = np.array([self.steps, action], np.int32)
        return observation, float(action), self.steps == self.length, False, {}


class OldCounter:
    """The same with the older API; actions above 9 end the episode by its time limit."""

    def reset(self) -> Any:
        self.steps = 0
        return np.array([0, 0], np.int32)

    def step(self, action: Any) -> Any:
        self.steps += 1
        cut = action > 9
        info = {"TimeLimit.truncated": True} if cut else {}
        return np.array([self.steps, action], np.int32), 1, self.steps == 3 or cut, info


class Nested:
    """Dicts and tuples of observations of many dtypes; actions are [2, 3] floats."""

    action_space = SimpleNamespace(dtype=np.dtype(np.float32), shape=(2, 3))

    def __init__(self) -> None:
        self.total = np.zeros((2, 3), np.float32)

    def _observe(self) -> dict[str, Any]:
        image = np.full((2, 2, 3), 7, np.uint8)
        return {"image": image, "sum": self.total.copy(), "pair": (np.float64(self.total.sum()), True)}

    def reset(self) -> Any:
        self.total[:] = 0
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        self.kept = getattr(self, "kept", action)  # must not change under our hands
        self.total += self.kept
        return self._observe(), self.total.sum(), False, False, {}


class Pair:
    """A tuple of two observations, three continuous actions, truncated after two steps."""

    action_space = SimpleNamespace(dtype=np.dtype(np.float64), shape=(3,))

    def reset(self) -> Any:
        self.steps = 0
        return (np.zeros(2), np.zeros((), np.int16)), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return (np.full(2, float(np.sum(action))), np.int16(self.steps)), 0.5, False, self.steps == 2, {}


class Pid(Counter):
    """Observes the process it lives in."""

    def reset(self) -> Any:
        return np.array([os.getpid()]), {}

    def step(self, action: Any) -> Any:
        return np.array([os.getpid()]), 0.0, False, False, {}


class Trouble(Counter):
    """Misbehaves in the way that its action names."""

    def step(self, action: Any) -> Any:
        if action == 1:
            raise ValueError("trouble in the environment")
        if action == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        if action == 3:
            time.sleep(1000)
        if action == 4:
            os._exit(7)
        if action == 5:
            return np.zeros(5), 0.0, False, False, {}
        if action == 6:
            return np.zeros(2), 0.0, False, False, {}  # float64 does not fit into int32
        return super().step(action)


class Numbered(Counter):
    """Observes its index and a random number."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self.index, self.random = index, np.random.default_rng(index)

    def reset(self) -> Any:
        return np.array([self.index, self.random.integers(1000)]), {}


class Resets(Counter):
    """Observes how often it was reset."""

    resets = 0

    def reset(self) -> Any:
        super().reset()
        self.resets += 1
        return np.array([self.resets, 0], np.int32), {}


class Closing(Counter):
    """Leaves a file behind when it is closed."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def close(self) -> None:
        with open(self.path, "w") as file:
            file.write("closed")


def odd_one_out(path: str) -> Any:
    """Return a Pair to the first caller, then Counters."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        return Pair()
    except FileExistsError:
        return Counter()


def unmakeable() -> Any:
    """Fail."""
    raise OSError("no such simulator")
