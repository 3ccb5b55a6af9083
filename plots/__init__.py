"""Curves and reports of training runs, read from the files that the peers write; `plot.py` is the command.

Imports point downward: `command` → `terminal`, `picture` → `series` → `table`, and `command` → `report` →
`charts`, `run`, `walk` → `table`. Neither `agent` nor `envs` nor `moolib` imports anything from here.
"""
