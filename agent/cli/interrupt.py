"""Ctrl-C while a command starts.

`python -m agent.NAME` imports for seconds before its `main` runs. Python would answer a Ctrl-C in that time
with a traceback from the middle of some library; so `agent` asks the system to end the process instead, and
each `main` turns Ctrl-C into `KeyboardInterrupt` again.
"""

import signal
import sys


def end_quietly_while_importing() -> None:
    """For `agent/__init__.py`; does nothing where `agent` is imported by another program."""
    finding_module = sys.argv[:1] == ["-m"]  # what runpy leaves there until it has found the module
    if finding_module and any(argument.startswith("agent.") for argument in sys.orig_argv):
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def raise_again() -> None:
    """For the beginning of a `main`."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
