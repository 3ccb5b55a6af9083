#!/usr/bin/env python3
"""Plots logs.tsv, and writes the report of a run: `python plot.py --help`; the package `plots` does it."""

import sys


def main() -> int:
    """Runs the command; imports only when it is called, so that Ctrl-C ends it quietly at any moment."""
    try:
        from plots.command import main as command

        return command()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
