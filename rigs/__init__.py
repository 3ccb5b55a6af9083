"""Rigs that tests and benchmarks share; nothing here is installed or used by the program itself.

- `processes`, `momentum_peer`, `experiments`: brokers and peers as processes of their own.
- `local_members`, `rpcs`, `example_envs`: members, calls and environments of moolib within one process.
- `go2_tasks`, `untrained_policies`, `toy_objective`, `run_logs`: tasks, policies, losses and logs of herd.
- `network_namespaces`, `browser`: hosts on one machine, and a headless Chromium.
"""
