"""Write a trained policy to a file that runs without this program.

    python -m agent.export                                     # latest/checkpoint.safetensors to policy.onnx
    python -m agent.export checkpoint=PATH out=policy.onnx
    python -m agent.export checkpoint=PATH out=policy.pt2      # for torch.export.load

The network maps `obs` float32 [N, obs_dim] to `actions` float32 [N, 12], the mean actions; the observation
normaliser is part of it. The hidden state of an LSTM goes in as `memory_0` and `memory_1` [N, hidden], zeros
at the start, and comes out as `next_memory_0` and `next_memory_1`. The file's metadata hold all else that a
simulator or a robot needs to know; docs/deploy.md explains them and has a program that uses them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.cli.arguments import command, option
from agent.policies.exporting import export, obs_dim
from agent.policies.loading import load
from agent.storage.paths import LATEST
from envs.go2.robot.constants import JOINT_NAMES


@dataclass(frozen=True)
class Options:
    checkpoint: str = option(LATEST, "file to read, or the directory of its run")
    out: str = option("policy.onnx", "file to write, .onnx or .pt2")


def run(options: Options) -> None:
    """Export and say so."""
    loaded, out = load(options.checkpoint), Path(options.out)
    checked = export(loaded, out)
    dim = obs_dim(loaded.policy)
    print(f"{out}: {loaded.env.name}, obs [N, {dim}] to actions [N, {len(JOINT_NAMES)}]; {checked}")


def main(arguments: Sequence[str] | None = None) -> int:
    return command("agent.export", Options, run, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
