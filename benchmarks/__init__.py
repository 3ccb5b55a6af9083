"""Measurements, each against a yardstick in the same run, and faults injected into real peers.

Run one with `python -m benchmarks.NAME`; `--help` explains it. docs/benchmarks.md has results.
"""
