"""Exported policies: equal to torch's, fully described, and run by the program in the docs."""

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from agent.policies import exporting
from envs import make_pool
from envs.go2.robot import mjcf
from rigs import untrained_policies as policies
from rigs.go2_tasks import task

onnx = pytest.importorskip("onnx", reason="needs the package onnx (extra: export)")
onnxruntime = pytest.importorskip("onnxruntime", reason="needs the package onnxruntime (extra: export)")

DEPLOY = Path(__file__).parents[3] / "docs" / "deploy.md"


def session(content: bytes):
    return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("env", ["go2", "go2_unitree"])
def test_onnxruntime_acts_as_torch(env):
    trained = policies.trained(1.0, f"env={env}")
    runtime = session(exporting.to_onnx(trained.policy, trained.env))
    (given,), (taken,) = runtime.get_inputs(), runtime.get_outputs()
    dim = {"go2": 50, "go2_unitree": 48}[env]
    assert (given.name, given.type, given.shape) == ("obs", "tensor(float)", ["N", dim])
    assert (taken.name, taken.type, taken.shape) == ("actions", "tensor(float)", ["N", 12])
    for rows in (1, 64):
        obs = torch.randn(rows, dim) * 3
        expected, _ = trained.policy.act(obs, torch.zeros(rows, dtype=torch.bool), ())
        assert expected.abs().mean() > 0.1
        (actions,) = runtime.run(["actions"], {"obs": obs.numpy()})
        np.testing.assert_allclose(actions, expected.numpy(), rtol=0, atol=1e-5)


def test_an_lstm_remembers_as_in_torch():
    trained = policies.trained(1.0, "model=lstm")
    runtime = session(exporting.to_onnx(trained.policy, trained.env))
    hidden = trained.policy.initial_hidden(4)
    theirs = [part.numpy() for part in hidden]
    for step in range(3):
        obs = torch.randn(4, 50)
        expected, hidden = trained.policy.act(obs, torch.full((4,), step == 0), hidden)
        actions, *theirs = runtime.run(
            ["actions", "next_memory_0", "next_memory_1"],
            {"obs": obs.numpy(), "memory_0": theirs[0], "memory_1": theirs[1]},
        )
        np.testing.assert_allclose(actions, expected.numpy(), rtol=0, atol=1e-5)
    assert np.abs(theirs[0]).max() > 0.01


def test_torch_export_acts_as_torch():
    trained = policies.trained(1.0)
    extra = {"metadata.json": ""}
    file = io.BytesIO(exporting.to_torch_export(trained.policy, trained.env))
    network = torch.export.load(file, extra_files=extra).module()
    for rows in (1, 5):
        obs = torch.randn(rows, 50)
        expected, _ = trained.policy.act(obs, torch.zeros(rows, dtype=torch.bool), ())
        torch.testing.assert_close(network(obs)[0], expected, rtol=0, atol=1e-5)
    assert json.loads(extra["metadata.json"])["kp"] == 35.0


def properties(trained):
    network = onnx.load_from_string(exporting.to_onnx(trained.policy, trained.env))
    return {entry.key: json.loads(entry.value) for entry in network.metadata_props}


def test_the_metadata_are_those_of_unitree_rl_gyms_task():
    found = properties(policies.trained(1.0, "env=go2_unitree"))
    assert found == {
        "observation_terms": [
            {"name": "base_lin_vel", "dim": 3, "scale": 2.0},
            {"name": "base_ang_vel", "dim": 3, "scale": 0.25},
            {"name": "projected_gravity", "dim": 3, "scale": 1.0},
            {"name": "command", "dim": 3, "scale": [2.0, 2.0, 0.25]},
            {"name": "joint_pos", "dim": 12, "scale": 1.0},
            {"name": "joint_vel", "dim": 12, "scale": 0.05},
            {"name": "last_action", "dim": 12, "scale": 1.0},
        ],
        "joint_names": [
            f"{leg}_{joint}_joint" for leg in ("FL", "FR", "RL", "RR") for joint in ("hip", "thigh", "calf")
        ],
        "default_joint_pos": [0.1, 0.8, -1.5, -0.1, 0.8, -1.5, 0.1, 1.0, -1.5, -0.1, 1.0, -1.5],
        "action_scale": 0.25,
        "kp": 20.0,
        "kd": 0.5,
        "torque_limits": [23.7, 23.7, 35.55] * 4,
        "control_dt": 0.02,
        "gait_frequency_hz": 2.0,
    }


@pytest.mark.parametrize("name", ["go2", "go2_unitree"])
def test_a_stranger_can_compute_the_observation_from_qpos_and_qvel(name):
    config = task(name, observations__noise=False, gait__random_phase=False, episode__stagger=False)
    pool, rng = make_pool(config, 3, 1, seed=5), np.random.default_rng(0)
    pool.reset(0)
    command = np.array([0.4, -0.2, 0.3], np.float32)
    pool.set_commands(0, command)
    for _ in range(7):
        action = rng.normal(0, 0.5, (3, 12)).astype(np.float32)
        obs = pool.step(0, action).result().obs
    state, about = pool.state(0), exporting.metadata(config)
    angle = 2 * np.pi * about["gait_frequency_hz"] * 7 * about["control_dt"]
    for row in range(3):
        qpos, qvel = state.qpos[row].astype(float), state.qvel[row].astype(float)
        to_base = Rotation.from_quat(qpos[[4, 5, 6, 3]]).inv()
        values = {
            "base_lin_vel": to_base.apply(qvel[:3]),
            "base_ang_vel": qvel[3:6],
            "projected_gravity": to_base.apply([0, 0, -1]),
            "command": command,
            "joint_pos": qpos[7:] - about["default_joint_pos"],
            "joint_vel": qvel[6:],
            "last_action": action[row],
            "gait_phase": [np.sin(angle), np.cos(angle)],
        }
        terms = about["observation_terms"]
        expected = np.concatenate([np.multiply(values[t["name"]], t["scale"]) for t in terms])
        assert [t["dim"] for t in terms] == [len(values[t["name"]]) for t in terms]
        np.testing.assert_allclose(obs[row], expected, atol=2e-5)
    pool.close()


def program() -> str:
    return re.search(r"```python\n(.*?)```", DEPLOY.read_text(), re.DOTALL).group(1)


def test_the_program_in_the_docs_is_short_and_needs_little():
    lines = program().splitlines()
    assert len(lines) <= 40
    imports = " ".join(line for line in lines if line.startswith("import "))
    assert imports == "import json, sys import mujoco, numpy as np, onnxruntime"


def test_the_program_in_the_docs_moves_the_robot_as_we_do(tmp_path):
    """A gentle policy in Menagerie's physics, in our batch and by the program with its own torques."""
    command, trained = (0.5, 0.2, 0.3), policies.trained(0.6)
    spec = mjcf.make_spec("menagerie")
    spec.compile()
    (tmp_path / "scene.xml").write_text(spec.to_xml())
    (tmp_path / "policy.onnx").write_bytes(exporting.to_onnx(trained.policy, trained.env))
    (tmp_path / "run_policy.py").write_text(program())
    arguments = ["run_policy.py", "policy.onnx", "scene.xml", *map(str, command)]
    ran = subprocess.run(
        [sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=True
    )
    theirs = [float(number) for number in re.findall(r"-?\d+\.\d*(?:e-?\d+)?", ran.stdout)]

    config = task(
        "go2",
        physics__variant="menagerie",
        physics__timestep=0.002,
        physics__decimation=10,
        gait__random_phase=False,
        episode__stagger=False,
        resets__joint_noise=0.0,
        resets__height=0.33,
        randomization__friction=None,
        randomization__joint_damping=None,
    )
    pool = make_pool(config, 1, 1, seed=0)
    pool.reset(0)
    obs, velocities = pool.set_commands(0, np.array(command, np.float32)), []
    state, start = pool.state(0), torch.zeros(1, dtype=torch.bool)
    for _ in range(500):
        before = state.base_lin_vel[0, :2].tolist()  # the program, too, takes it before the step
        mean, _ = trained.policy.act(torch.from_numpy(obs.copy()), start, ())
        obs = pool.step(0, mean.numpy()).result().obs
        velocities.append([*before, state.base_ang_vel[0, 2]])
    ours = [*np.mean(velocities[100:], axis=0), state.qpos[0, 2]]
    pool.close()
    assert ours[3] < 0.29  # m; without actions it would stand at 0.30 m
    np.testing.assert_allclose(theirs[:3], ours[:3], atol=6e-4)  # printed with three decimals
    assert theirs[3] == pytest.approx(ours[3], abs=1e-5)


def test_a_network_that_differs_is_not_written(tmp_path, monkeypatch):
    trained, out = policies.trained(1.0), tmp_path / "policy.onnx"
    other = exporting.to_onnx(policies.trained(1.1).policy, trained.env)
    assert exporting.greatest_difference(trained.policy, other) > 0.01
    monkeypatch.setattr(exporting, "to_onnx", lambda policy, env: other)
    with pytest.raises(RuntimeError, match="differ from torch's by"):
        exporting.export(trained, out)
    assert not out.exists()
