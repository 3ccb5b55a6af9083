"""Faults injected into a group of real peers, whose every update is checked; see `benchmarks.chaos.__main__`.

`checked_peer` is the program of a peer, `ledger` the check of its log, `rig` starts both, `faults` harms them, and
`training` does the same to real training peers.
"""
