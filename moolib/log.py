"""The log of `moolib`: one logger, five levels, errors only by default."""

from __future__ import annotations

import logging
from typing import Any, TextIO

VERBOSE = 15  # between logging.INFO (20) and logging.DEBUG (10)
LEVELS = {
    "none": logging.CRITICAL + 1,
    "error": logging.ERROR,
    "info": logging.INFO,
    "verbose": VERBOSE,
    "debug": logging.DEBUG,
}


class _Handler(logging.StreamHandler[TextIO]):
    """Writes to the standard error, as long as that is possible."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Print no traceback: the log is never a reason to complain."""


def _stderr_logger() -> logging.Logger:
    handler = _Handler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s: %(message)s"))
    logger = logging.getLogger("moolib")
    logger.addHandler(handler)
    logger.propagate = False
    logger.setLevel(logging.DEBUG)  # `log` filters
    return logger


logging.addLevelName(VERBOSE, "VERBOSE")
_target: Any = _stderr_logger()
_level = LEVELS["error"]


def set_log_level(level: str | int) -> None:
    """Set the level: "none", "error", "info", "verbose" or "debug", or 0 to 4 in the same order.

    Raises:
        ValueError: Any other level.
    """
    global _level
    names = list(LEVELS)
    name = names[level] if isinstance(level, int) and 0 <= level < len(names) else level
    if name not in LEVELS:
        raise ValueError(f"log level {level!r}: allowed are {', '.join(names)} or 0 to {len(names) - 1}")
    _level = LEVELS[str(name)]


def set_logging(target: Any) -> None:
    """Write to `target`: a `logging.Logger`, or the `logging` module itself."""
    global _target
    _target = target


def log(level: str, message: str, *args: object) -> None:
    """Write `message % args` if the level (one of `LEVELS`) is enabled."""
    if LEVELS[level] >= _level:
        _target.log(LEVELS[level], message, *args)
