"""What a checkpoint holds: the group's model and counters, and the writer's robots: resuming is exact."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from agent.config import Config, ConfigError
from agent.storage.checkpoint import CheckpointError
from agent.training.learner import differences

if TYPE_CHECKING:
    from agent.training.peer import Peer

MAY_DIFFER = ("connect", "advertise", "key_file", "local_name", "savedir", "localdir")
"""Settings whose change on resuming is not worth a word."""


def take(peer: Peer) -> dict[str, Any]:
    """Everything that `peer` needs to go on, between two rollouts."""
    return {
        "model_version": peer.learner.accumulator.model_version(),
        "policy": peer.learner.policy.state_dict(),
        "learner": peer.learner.state_dict(),
        "config": asdict(peer.config),
        "writer": {
            "local_name": peer.config.local_name,
            "wandb_id": peer.wandb_id,
            "robots": _robots(peer.config),
            "actors": peer.actors.state_dict(),
            "minibatches": peer.lessons.generator.get_state(),
            "pending": peer.pending is not None,
        },
    }


def restore(peer: Peer, saved: dict[str, Any]) -> None:
    """Takes over the group's part, and the writer's if that was this peer, with the same robots.

    Raises:
        ConfigError: it was trained with settings that a model cannot change.
        CheckpointError: it is not what `take` gives.
    """
    try:
        _restore(peer, saved)
    except (AttributeError, KeyError, TypeError, RuntimeError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        reason = f"{type(error).__name__} {error}"
        raise CheckpointError(
            f"{peer.checkpoint_path}: no checkpoint of a run of this version of herd: {reason}"
        ) from None


def _restore(peer: Peer, saved: dict[str, Any]) -> None:
    peer.learner.check_settings(saved["learner"]["settings"], str(peer.checkpoint_path))
    ours, theirs = (
        {k: v for k, v in config.items() if k not in MAY_DIFFER}
        for config in (asdict(peer.config), saved["config"])
    )
    if different := differences(ours, theirs):
        peer.status.say(f"other settings than in {peer.checkpoint_path}: {'; '.join(different)}")
    peer.learner.policy.load_state_dict(saved["policy"])
    peer.learner.load_state_dict(saved["learner"])
    peer.learner.accumulator.set_model_version(saved["model_version"])
    writer = saved["writer"]
    if writer["local_name"] == peer.config.local_name:
        peer.wandb_id = writer["wandb_id"]
        if writer["actors"] is not None and writer["robots"] == _robots(peer.config):
            peer.actors.load_state_dict(writer["actors"])
            peer.lessons.generator.set_state(writer["minibatches"])
            peer.pending = peer.actors.rollout if writer["pending"] else None


def _robots(config: Config) -> dict[str, Any]:
    """What the saved states of the robots depend on; random states also on the kind of device."""
    sizes, device = [config.actor_batch_size, config.num_actor_batches], config.device.partition(":")[0]
    return {"env": asdict(config.env), "sizes": sizes, "seed": config.seed, "device": device}
