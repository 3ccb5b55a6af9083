"""Many peers on one machine, whose computing is replaced by sleeping; see `benchmarks.scaling.__main__`."""
