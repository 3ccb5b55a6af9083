"""Wait for the broker, the members and their model, and say which of them is missing."""

from __future__ import annotations

import time
from collections.abc import Callable

import moolib
from agent.config import Config, ConfigError
from agent.training.learner import Learner

REFUSAL_PATIENCE = 2.0  # s in which a refusal may still be about a peer of our name that has just died


def wait_for_group(
    learner: Learner,
    rpc: moolib.Rpc,
    config: Config,
    say: Callable[[str], None],
    stop_requested: Callable[[], bool],
) -> bool:
    """Wait until the learner has a group and a model; return False if asked to stop instead.

    Args:
        learner: The replica that joins.
        rpc: Knows why the group refuses us, if it does.
        config: The peer's settings.
        say: Prints a line for the user.
        stop_requested: Returns whether to give up.

    Raises:
        ConfigError: The group refuses us, or nobody answers within `connect_timeout`.
    """
    began, said, where = time.monotonic(), False, f"connect={config.connect}"
    while not learner.connected:
        if stop_requested():
            return False
        learner.poll()
        learner.accumulator.wait(0.05)
        waited, refusal = time.monotonic() - began, rpc.debug_info()["refused"]
        if refusal and waited > REFUSAL_PATIENCE:
            raise ConfigError(f"{where}: we were refused: {refusal}")
        if waited > config.connect_timeout:
            raise ConfigError(
                f"{where}: no broker answered within {config.connect_timeout:g} s; "
                "start one with: python -m moolib.broker"
            )
        if waited > 1.0 and not said:
            say(f"waiting for the broker at {config.connect} and the group's model")
            said = True
    return True
