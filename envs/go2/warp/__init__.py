"""The same task on MuJoCo Warp: thousands of robots on a GPU (or, slowly, on the CPU). Extra `gpu`."""

import warp as wp

wp.config.log_level = wp.LOG_WARNING  # it would tell of every kernel that it loads
wp.init()
