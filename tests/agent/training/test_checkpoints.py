"""Checkpoints of a run: when they are written, what resumes, and one that an earlier version wrote."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from agent.cli.overrides import compose
from agent.config import ConfigError, from_omegaconf
from agent.errors import CheckpointError
from agent.experiment import start_rpc
from agent.logs.console import TrainingConsole
from agent.storage import checkpoint
from agent.training.checkpoints import Checkpoints, dump_batch
from agent.training.learner import checksum
from agent.training.peer import Peer

DATA = Path(__file__).resolve().parents[2] / "data"
SETTINGS = (
    "env=go2", "actor_batch_size=4", "unroll_length=6", "model.hidden_sizes=[8,8]", "physics_threads=1",
    "learner_threads=1", "batch_size=8", "virtual_batch_size=8", "precision=float32", "group=old", "seed=5",
    "local_name=old", "total_steps=1e6",
)  # fmt: skip
"""Those of the run in tests/data, which took 4800 policy steps."""


def test_they_are_written_when_due(tmp_path):
    checkpoints = Checkpoints(tmp_path, interval=10, history_interval=25)
    for seconds in (5, 10, 15, 20, 25, 30):
        checkpoints.save_when_due(seconds, updates=seconds, state=lambda seconds=seconds: {"at": seconds})
        if seconds == 5:
            assert list(tmp_path.iterdir()) == []
    assert checkpoint.load(checkpoints.path) == {"at": 30}
    (kept,) = [path for path in tmp_path.iterdir() if path != checkpoints.path]
    assert checkpoint.load(kept) == {"at": 25} and "25" in kept.name


def test_a_resumed_run_counts_from_where_it_was(tmp_path):
    checkpoints = Checkpoints(tmp_path, interval=10, history_interval=1000)
    assert not checkpoints.resume(lambda state: pytest.fail("there is none"))
    checkpoints.resumed_at(100.0)
    checkpoints.save_when_due(105.0, 1, dict)
    assert not checkpoints.path.exists()
    checkpoints.save_when_due(110.0, 1, lambda: {"step": 7})
    found = []
    assert checkpoints.resume(found.append) and found == [{"step": 7}]


def test_a_state_that_does_not_fit_is_one_line(tmp_path):
    checkpoints = Checkpoints(tmp_path, 1, 1)
    checkpoints.save({"step": 7})
    with pytest.raises(CheckpointError, match="no checkpoint of a run of this version of herd: KeyError"):
        checkpoints.resume(lambda state: state["policy"])

    def refuse(state):
        raise ConfigError("clip=0.3 (there: 0.2)")

    with pytest.raises(ConfigError, match=r"clip=0\.3"):
        checkpoints.resume(refuse)


def test_a_batch_that_cannot_be_dumped_says_why(tmp_path):
    path = tmp_path / "last-batch.safetensors"
    assert dump_batch(path, {"obs": torch.ones(2)}, {"step": 1}) == f"the last batch is in {path}"
    assert checkpoint.load(path)["progress"] == {"step": 1}
    assert "cannot write" in dump_batch(tmp_path / "missing" / "batch", {}, {})


def assert_same(ours, theirs, path=""):
    """Equal in all bits: dicts, lists, tensors, arrays and plain values."""
    if isinstance(theirs, dict):
        assert set(ours) == set(theirs), path
        for key, value in theirs.items():
            assert_same(ours[key], value, f"{path}/{key}")
    elif isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs), path
        for index, value in enumerate(theirs):
            assert_same(ours[index], value, f"{path}/{index}")
    elif path.endswith("counter.simulated_seconds"):  # once a sum of steps, now their number times the step
        assert float(ours) == pytest.approx(float(theirs), rel=1e-12)
    elif isinstance(theirs, torch.Tensor | np.ndarray):
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs), path)
    else:
        assert ours == theirs, path


@pytest.fixture
def start(tmp_path):
    """Starts peers alone in this process, which all share one run directory."""
    peers, held = [], []

    def start(*settings):
        config = from_omegaconf(compose(*settings, f"savedir={tmp_path}"))
        status = TrainingConsole("test", 1.0, Console(quiet=True))
        rpc, broker = start_rpc(config, status)
        held.append(broker)
        peers.append(Peer(config, rpc, status))
        return peers[-1]

    yield start
    for peer in peers:
        peer.close()


def test_a_checkpoint_of_the_first_layout_is_resumed_whole(start, tmp_path):
    saved = checkpoint.load(DATA / "run-of-layout-1.safetensors")
    shutil.copy(DATA / "run-of-layout-1.safetensors", tmp_path / "checkpoint.safetensors")
    peer = start(*SETTINGS)
    assert peer.rollout is not None and peer.learner.progress.step == saved["learner"]["progress"]["step"]
    state = peer.state_dict()
    for part in ("model_version", "policy", "learner", "writer"):
        assert_same(state[part], saved[part], part)
    assert peer.learner.progress.checksum == checksum(peer.learner.parameters.tensors)
    assert peer.join()
    peer.train_on_one_rollout()
    peer.train_on_one_rollout()
    progress = peer.learner.progress
    assert progress.updates == saved["learner"]["progress"]["updates"] + 2 * 4


def test_robots_on_a_device_go_on_exactly(start, tmp_path):
    pytest.importorskip("mujoco_warp", reason="MuJoCo Warp is not installed: pip install -e '.[gpu]'")
    settings = (
        "env.backend=warp", "actor_batch_size=4", "unroll_length=6", "model.hidden_sizes=[16,16]",
        "batch_size=4", "virtual_batch_size=4", "learner_threads=1",
    )  # fmt: skip
    first = start(*settings)
    assert first.join()
    for _ in range(3):
        first.train_on_one_rollout()
    saved = first.state_dict()
    first.checkpoints.save(saved)
    assert saved["writer"]["robots"]["device"] == "cpu"  # or a GPU's generators would be given theirs
    first.train_on_one_rollout()
    second = start(*settings)
    assert second.join()
    second.train_on_one_rollout()
    assert checksum(first.learner.parameters.tensors) == checksum(second.learner.parameters.tensors)
    assert first.learner.progress.updates == second.learner.progress.updates > 0
    rollout = second.actors.rollout
    assert rollout.obs.isfinite().all() and float(rollout.obs.std()) > 0.1 and rollout.reward.ne(0).any()
    assert second.pool.counters.policy_steps == 4 * 6 * 8
