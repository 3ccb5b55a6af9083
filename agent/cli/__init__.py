"""Shared by the commands: the command line, overrides and sweeps, hints, and the doctor's checks.

Only commands use this package; nothing below them does.
"""
