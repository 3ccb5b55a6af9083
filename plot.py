#!/usr/bin/env python3
"""Plot logs.tsv, or write the report of a run: `python plot.py --help`. Its code is in `plots`."""

import sys


def main() -> int:
    """Run the command; import only now, so that Ctrl-C ends it quietly at any moment."""
    try:
        from plots.command import main as command

        return command()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
