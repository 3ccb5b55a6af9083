"""The lab: how fast this machine steps robots, and whether every way of stepping them is the same physics.

Run it with ``python -m envs.lab``; ``--help`` lists the sections.
"""
