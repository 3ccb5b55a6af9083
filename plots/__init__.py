"""Curves and reports of training runs, read from what the peers write; `plot.py` is the command.

Arrows point downward: `command` → `report`, `terminal`, `picture` → `series` → `table`. Nothing here is
imported by `agent`, `envs` or `moolib`.
"""
