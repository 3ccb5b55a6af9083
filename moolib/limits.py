"""Bounds of what a program may choose. Whoever lets users choose can check them before anything starts."""

MAX_BATCH_SIZE = 1 << 24  # sums of batch sizes travel in float32, which is exact up to here
MAX_GROUP_NAME = 200  # characters
MAX_IDENTITY = 1 << 18  # characters that describe all models of a group's member
