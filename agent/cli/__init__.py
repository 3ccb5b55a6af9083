"""What the commands share: the command line, overrides and sweeps, hints, and the doctor's checks.

Only commands use this package; nothing below them does.
"""
