"""The GPU backend: MuJoCo Warp, thousands of robots on a GPU (or, slowly, on the CPU). Extra `gpu`."""

import warp as wp

wp.config.log_level = wp.LOG_WARNING  # otherwise it reports every kernel that it loads
wp.init()
