"""The lab: measures how fast this machine steps robots, and checks that every engine gives the same physics.

Run it with ``python -m envs.lab``; ``--help`` lists the sections.
"""
