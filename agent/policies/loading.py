"""Load a trained policy from a checkpoint, to evaluate, show or export it.

Only the task and the model of the saved configuration are read, so that a checkpoint stays usable when keys
of the training loop come and go.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from agent.errors import CheckpointError
from agent.models.policy import ModelConfig, Policy, make_policy
from agent.storage import checkpoint
from agent.storage.paths import CHECKPOINT, LATEST
from envs import EnvConfig
from envs.go2.mdp.observations import Observer
from envs.go2.robot.constants import JOINT_NAMES
from envs.go2.robot.symmetry import mirror
from envs.schema import parse


@dataclass(frozen=True)
class LoadedPolicy:
    """A trained policy and its task, ready to run on the CPU.

    Attributes:
        policy: The policy, in evaluation mode.
        env: The task that it was trained on, with the CPU's backend.
        path: The checkpoint.
        step: Policy steps of its training, of all peers and restarts.
        seconds: Time that its training took, s.
    """

    policy: Policy
    env: EnvConfig
    path: Path
    step: int
    seconds: float


def load(path: str | os.PathLike[str]) -> LoadedPolicy:
    """Load the policy of a checkpoint.

    Args:
        path: The checkpoint, or the directory of its run, such as `latest`.

    Raises:
        CheckpointError: there is none, it is damaged, or it does not fit this program.
    """
    path = Path(os.path.expanduser(path))
    if path.is_dir() or path == Path(LATEST).parent:
        path /= CHECKPOINT
    if not path.is_file() and path == Path(LATEST):
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
    return LoadedPolicy(policy.eval().requires_grad_(False), env, path, progress["step"], progress["seconds"])


class Controller:
    """Drive a batch of robots with a policy's mean actions."""

    def __init__(self, policy: Policy, batch_size: int) -> None:
        self.policy = policy
        self._hidden = policy.initial_hidden(batch_size)

    @torch.inference_mode()
    def act(self, obs: np.ndarray, is_first: np.ndarray) -> np.ndarray:
        """Return mean actions [B, 12] float32 for observations.

        Args:
            obs: Observations [B, D] float32.
            is_first: Observations that begin an episode [B] bool; the hidden state before them is forgotten.
        """
        mean, self._hidden = self.policy.act(torch.from_numpy(obs), torch.from_numpy(is_first), self._hidden)
        actions: np.ndarray = mean.numpy()
        return actions
