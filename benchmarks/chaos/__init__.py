"""Faults injected into a group of real peers, whose every update is checked; see `benchmarks.chaos.__main__`.

`checked_peer` is the program of a peer, `ledger` the check of its log, `rig` starts the processes, `faults`
harms them, and `training` harms real training peers.
"""
