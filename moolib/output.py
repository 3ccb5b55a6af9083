"""The standard streams of a command: one that fails is no reason for a traceback, nor to stop working."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO


@contextlib.contextmanager
def tolerated() -> Iterator[None]:
    """Escape characters that a stream cannot encode, and survive one that cannot be written at the end.

    A reader may leave (`| head -1`), a disk may fill up, a terminal may close. Python itself would complain
    about that at the exit of the program.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):  # it is missing, replaced or closed
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            flush(stream)


def say(text: str, stream: TextIO | None = None) -> OSError | None:
    """Print a line, to the standard output by default; return the error if that is impossible.

    After an error, everything that is printed vanishes.
    """
    stream = stream or sys.stdout
    try:
        print(text, file=stream)
    except OSError as error:
        return flush(stream) or error
    except ValueError:  # the stream was closed
        return None
    return flush(stream)


def flush(stream: Any) -> OSError | None:
    """Flush a stream, which may be missing or closed.

    If that fails, return the error, and let the stream write to nowhere from now on.
    """
    try:
        stream.flush()
    except OSError as error:
        with contextlib.suppress(OSError, ValueError):  # it has no descriptor
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
        return error
    except (AttributeError, ValueError):  # there is no stream, or it was closed
        pass
    return None
