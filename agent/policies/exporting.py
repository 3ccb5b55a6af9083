"""Write a policy as a network that runs without this program: ONNX, or torch.export."""

from __future__ import annotations

import io
import json
import tempfile
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from agent.errors import ConfigError
from agent.models.policy import Policy
from agent.policies.loading import LoadedPolicy
from agent.storage.files import write_atomic
from envs import EnvConfig
from envs.go2.mdp.observations import Observer
from envs.go2.robot.constants import DEFAULT_JOINT_POS, JOINT_NAMES
from envs.go2.robot.physics import torque_limits

OPSET = 17  # of ONNX, 2022: every runtime of the last years reads it
SUFFIXES = (".onnx", ".pt2")
TOLERANCE = 1e-5  # greatest difference between the actions of torch and of onnxruntime


class Deployed(nn.Module):
    """The mean action of a policy within an episode, with its hidden state as inputs and outputs."""

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, obs: Tensor, *hidden: Tensor) -> tuple[Tensor, ...]:
        """Return mean actions `[N, 12]` for `obs` `[N, D]`, and the next hidden state `[N, H]` each."""
        is_first = torch.zeros_like(obs[:, 0], dtype=torch.bool)
        mean, hidden = self.policy.act(obs, is_first, hidden)
        return (mean, *hidden)


def metadata(env: EnvConfig) -> dict[str, Any]:
    """Return what a simulator or a robot must know to run a policy of this task; see docs/deploy.md."""
    terms = Observer(env.observations).terms
    return {
        "observation_terms": [{"name": name, "dim": dim, "scale": scale} for name, dim, scale in terms],
        "joint_names": JOINT_NAMES,
        "default_joint_pos": DEFAULT_JOINT_POS.tolist(),  # rad
        "action_scale": env.control.action_scale,  # rad
        "kp": env.control.kp,  # N m/rad
        "kd": env.control.kd,  # N m s/rad
        "torque_limits": torque_limits(env.physics.variant).tolist(),  # N m
        "control_dt": env.control_dt,  # s
        "gait_frequency_hz": env.gait.frequency,
    }


def to_onnx(policy: Policy, env: EnvConfig) -> bytes:
    """Return the policy as an ONNX file.

    Raises:
        ConfigError: the `onnx` package is missing.
    """
    if find_spec("onnx") is None:
        raise ConfigError("out=*.onnx needs the package onnx: pip install 'herd[export]'")
    import onnx

    inputs = _example(policy)
    names = [f"memory_{i}" for i in range(len(inputs) - 1)]  # the file format's name of the hidden state
    input_names, output_names = ["obs", *names], ["actions", *(f"next_{name}" for name in names)]
    with tempfile.TemporaryDirectory() as directory, warnings.catch_warnings():
        # The exporter that follows a trace needs no further package. It warns of the iteration over tensors,
        # which is over the pair of an observation and its mirror image: their number never changes.
        warnings.simplefilter("ignore")
        file = Path(directory) / "policy.onnx"
        torch.onnx.export(
            Deployed(policy),
            inputs,
            file,
            dynamo=False,
            opset_version=OPSET,
            input_names=input_names,
            output_names=output_names,
            dynamic_axes={name: {0: "N"} for name in [*input_names, *output_names]},
        )
        network = onnx.load(file)
    network.doc_string = f"Go2 policy of the task {env.name}"
    properties = {name: json.dumps(value) for name, value in metadata(env).items()}
    onnx.helper.set_model_props(network, properties)
    onnx.checker.check_model(network)
    content: bytes = network.SerializeToString()
    return content


def to_torch_export(policy: Policy, env: EnvConfig) -> bytes:
    """Return the policy as a file for `torch.export.load`, with the extra file `metadata.json`."""
    batch = torch.export.Dim("N", min=1)
    inputs, shapes = _example(policy), torch.export.ShapesCollection()
    for x in inputs:
        shapes[x] = {0: batch}
    network = Deployed(policy)
    program = torch.export.export(network, inputs, dynamic_shapes=shapes.dynamic_shapes(network, inputs))
    file = io.BytesIO()
    torch.export.save(program, file, extra_files={"metadata.json": json.dumps(metadata(env))})
    return file.getvalue()


def _example(policy: Policy) -> tuple[Tensor, ...]:
    """Return inputs of the network for two robots."""
    return (torch.zeros(2, obs_dim(policy)), *policy.initial_hidden(2))


def obs_dim(policy: Policy) -> int:
    """Return the length of an observation."""
    return len(policy.normalizer.get_buffer("mean"))


def greatest_difference(policy: Policy, onnx_file: bytes, rows: int = 256) -> float:
    """Return the largest difference between the actions of torch and of onnxruntime on random observations.

    The observations spread three times as wide as in training, so that they reach the normaliser's clip.
    """
    import onnxruntime

    mean, inverse_std = (policy.normalizer.get_buffer(name) for name in ("mean", "inverse_std"))
    obs = mean + 3 * torch.randn(rows, obs_dim(policy)) / inverse_std
    inputs = (obs, *(torch.randn_like(part) for part in policy.initial_hidden(rows)))
    session = onnxruntime.InferenceSession(onnx_file, providers=["CPUExecutionProvider"])
    feed = {node.name: x.numpy() for node, x in zip(session.get_inputs(), inputs, strict=True)}
    outputs = session.run(None, feed)
    with torch.inference_mode():
        expected = Deployed(policy)(*inputs)
    return max(
        float(np.abs(ours - theirs.numpy()).max()) for ours, theirs in zip(outputs, expected, strict=True)
    )


def export(policy: LoadedPolicy, out: Path) -> str:
    """Write the file; return, in words, how it was checked or how to load it.

    Raises:
        ConfigError: an unknown suffix or a missing package.
        RuntimeError: the actions of onnxruntime differ from those of torch.
    """
    if out.suffix not in SUFFIXES:
        raise ConfigError(f"out={out}: must end in {' or '.join(SUFFIXES)}")
    if out.suffix == ".pt2":
        write_atomic(out, to_torch_export(policy.policy, policy.env))
        return "load it with torch.export.load"
    content = to_onnx(policy.policy, policy.env)
    checked = "not compared with torch: the package onnxruntime is missing"
    if find_spec("onnxruntime") is not None:
        difference = greatest_difference(policy.policy, content)
        if not difference <= TOLERANCE:
            raise RuntimeError(f"onnxruntime's actions differ from torch's by {difference:g}")
        checked = f"onnxruntime's actions equal torch's within {difference:.1g}"
    write_atomic(out, content)
    return checked
