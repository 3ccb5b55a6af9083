"""A trained policy for use: what evaluate, export and play load from a checkpoint.

Only the task and the model of the saved configuration are read, so that a checkpoint stays usable when keys
of the training loop come and go.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from agent.config import ModelConfig
from agent.errors import CheckpointError
from agent.models.policy import Policy, make_policy
from agent.storage import checkpoint
from envs import EnvConfig
from envs.go2.model import JOINT_NAMES
from envs.go2.observations import Observer
from envs.go2.symmetry import mirror
from envs.schema import parse

LATEST = "latest/checkpoint.safetensors"  # of the run that was started last in this directory


@dataclass(frozen=True)
class Trained:
    """A policy in evaluation mode on the CPU, and the task that it was trained on, with the CPU's backend.

    step and seconds: policy steps and time that its training took, over all peers and restarts.
    """

    policy: Policy
    env: EnvConfig
    path: Path
    step: int
    seconds: float


def load(path: str | os.PathLike[str]) -> Trained:
    """Loads the policy of a checkpoint.

    Raises:
        CheckpointError: there is none, it is damaged, or it does not fit this program; one line.
    """
    path = Path(path)
    if not path.is_file() and str(path) == LATEST:
        raise CheckpointError(f"{path}: nothing was trained in this directory yet; give checkpoint=PATH")
    saved = checkpoint.load(path)
    try:
        env = replace(EnvConfig.from_dict(saved["config"]["env"]), backend="mjbatch", device=None)
        model = parse(ModelConfig, saved["config"]["model"], "model")
        progress = saved["learner"]["progress"]
        observer = Observer(env.observations)
        policy = make_policy(model, observer.dim, len(JOINT_NAMES), mirror(observer.terms))
        policy.load_state_dict(saved["policy"])
    except KeyError as error:
        raise CheckpointError(f"{path}: a checkpoint without {error}") from None
    except (ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{path}: does not fit this version of the program: {reason}") from None
    return Trained(policy.eval().requires_grad_(False), env, path, progress["step"], progress["seconds"])


class Controller:
    """Drives a batch of robots with a policy's mean actions."""

    def __init__(self, policy: Policy, batch_size: int) -> None:
        self.policy = policy
        self._memory = policy.initial_memory(batch_size)

    @torch.inference_mode()
    def act(self, obs: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Mean actions [B, 12] float32 for observations [B, D].

        Args:
            obs: Observations [B, D] float32.
            start: Whether each is the first of an episode [B] bool, so that what came before is forgotten.
        """
        mean, self._memory = self.policy.act(torch.from_numpy(obs), torch.from_numpy(start), self._memory)
        return mean.numpy()
