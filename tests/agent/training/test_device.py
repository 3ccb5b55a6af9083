"""Robots that live on a device as tensors: their statistics, and training with them."""

from concurrent.futures import Future
from dataclasses import fields, replace
from types import SimpleNamespace

import hydra
import numpy as np
import pytest
import torch
from rich.console import Console

from agent.algorithms.loss import make_loss
from agent.config import ConfigError, from_omegaconf
from agent.experiment import CONF, start_rpc
from agent.logs.console import TrainingConsole
from agent.logs.timer import Timer
from agent.models.policy import make_policy
from agent.storage import checkpoint
from agent.training import snapshot
from agent.training.actors import Actors
from agent.training.device_sums import DeviceSums
from agent.training.learner import checksum
from agent.training.metrics_row import group_sums_sizes
from agent.training.peer import Peer
from agent.training.statistics import GroupSums
from envs import StepResult, make_pool
from tests.envs.helpers import task

TINY = [
    "env.backend=warp", "actor_batch_size=4", "unroll_length=6", "model.hidden_sizes=[16,16]",
    "batch_size=4", "virtual_batch_size=4", "learner_threads=1",
]  # fmt: skip


def test_statistics_are_those_of_the_host():
    """Three numbers of robots' steps added up on the device, against the NumPy path on the same results."""
    pool = make_pool(task("go2", episode__length=0.2), batch_size=16, num_batches=1, seed=0, num_threads=1)
    host, device = (GroupSums(group_sums_sizes(pool.obs_dim, len(pool.reward_names))) for _ in range(2))
    sums, rng = DeviceSums(device, len(pool.reward_names), torch.device("cpu")), np.random.default_rng(0)
    for _ in range(30):
        result = pool.step(0, (2 * rng.normal(size=(16, 12))).astype(np.float32)).result()
        Actors._add_statistics(SimpleNamespace(sums=host), result)
        tensors = {f.name: torch.from_numpy(getattr(result, f.name)) for f in fields(result)[:-1]}
        sums.add(StepResult(**tensors))
    assert not device.state_dict()["pending"].any(), "nothing is handed over before the flush"
    sums.flush()
    expected = host.state_dict()["pending"]
    np.testing.assert_allclose(device.state_dict()["pending"], expected, rtol=1e-5)
    assert (expected != 0).sum() > 10
    sums.flush()
    np.testing.assert_allclose(device.state_dict()["pending"], expected, rtol=1e-5)
    pool.close()


def test_acting_waits_for_nothing():
    """On the meta device, whose numbers nobody can read: torch would raise an error."""
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        config = replace(from_omegaconf(hydra.compose("config", TINY)), device="meta")
    real = make_pool(task("go2"), batch_size=4, num_batches=1, seed=0, num_threads=1)
    arrays = real.step(0, np.zeros((4, 12), np.float32)).result()
    tensors = {f.name: torch.from_numpy(getattr(arrays, f.name)).to("meta") for f in fields(arrays)[:-1]}
    names, given, answer = real.reward_names, [], Future()
    answer.set_result(StepResult(**tensors))
    pool = SimpleNamespace(
        device="meta", obs_dim=real.obs_dim, action_dim=12, reward_names=names,
        reset=lambda i: tensors["obs"], step=lambda i, action: given.append(action) or answer,
    )  # fmt: skip
    policy = make_policy(config.model, real.obs_dim, 12, real.mirror).to("meta")
    sums = GroupSums(group_sums_sizes(real.obs_dim, len(names)))
    actors = Actors(config, pool, policy, sums, Timer(), generator=None)
    for t in range(config.unroll_length):
        actors._act(0, t)
        actors._receive(0, t + 1)
    assert [action.device.type for action in given] == ["meta"] * config.unroll_length
    with pytest.raises(RuntimeError, match="meta"):
        bool(actors.finite)
    real.close()


def test_where_robots_may_live():
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        config = from_omegaconf(hydra.compose("config", [*TINY, "device=cuda:3"]))
        assert (config.env.backend, config.env.device) == ("warp", "cuda:3")
        assert from_omegaconf(hydra.compose("config", [*TINY, "env.device=cpu"])).env.device == "cpu"
        assert from_omegaconf(hydra.compose("config", [])).env.device is None
        config = from_omegaconf(hydra.compose("config", ["machine=gpu", "env=go2_unitree", "device=cuda:1"]))
        assert (config.env.name, config.env.backend, config.env.device) == ("go2_unitree", "warp", "cuda:1")
        assert (config.sequences, config.batch_size, config.unroll_length) == (4096, 1024, 16)
        with pytest.raises(ConfigError, match=r"env\.device=cuda:0: must be null with env\.backend=mjbatch"):
            from_omegaconf(hydra.compose("config", ["env.device=cuda:0"]))
        with pytest.raises(ConfigError, match=r"env\.backend='brax': must be one of mjbatch, warp"):
            from_omegaconf(hydra.compose("config", ["env.backend=brax"]))


def test_tf32_is_a_setting_of_cards_alone():
    """On a card it is set either way; a peer on the CPU leaves the process as it was."""
    policy = torch.nn.Linear(1, 1)
    before, found = torch.get_float32_matmul_precision(), []
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        for keys in (["device=cuda:0", "precision=tf32"], [], ["device=cuda:0", "precision=float32"]):
            make_loss(from_omegaconf(hydra.compose("config", keys)), policy)
            found.append(torch.get_float32_matmul_precision())
    torch.set_float32_matmul_precision(before)
    assert found == ["high", "high", "highest"]


def test_training_on_a_device_and_going_on_exactly(tmp_path):
    pytest.importorskip("mujoco_warp", reason="MuJoCo Warp is not installed: pip install 'herd[gpu]'")
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        config = from_omegaconf(hydra.compose("config", [*TINY, f"savedir={tmp_path}"]))
    sums, peers = [], []
    with TrainingConsole("test", 1.0, Console(quiet=True)) as status:
        for _ in range(2):
            rpc, broker = start_rpc(config, status)
            peer = Peer(config, rpc, status)
            peers.append((peer, broker))
            peer.join()
            if peer.pending is None:
                for _ in range(3):
                    peer.round()
                saved = snapshot.take(peer)
                checkpoint.save(peer.checkpoint_path, saved)  # the second peer resumes from it
                assert (
                    saved["writer"]["robots"]["device"] == "cpu"
                )  # or a card's generators would be given theirs
            peer.round()
            sums.append(checksum(peer.learner.parameters))
            rollout = peer.actors.rollout
            assert rollout.obs.isfinite().all() and float(rollout.obs.std()) > 0.1
            assert rollout.reward.ne(0).any()
            assert peer.pool.counters.policy_steps == 4 * 6 * 8
    assert sums[0] == sums[1]
    assert peers[0][0].learner.progress.updates == peers[1][0].learner.progress.updates > 0
    for peer, _ in peers:
        peer.close()
    assert checkpoint.load(tmp_path / "checkpoint.safetensors")["config"]["env"]["backend"] == "warp"
