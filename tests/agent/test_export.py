"""The command that exports."""

import pytest

from agent import export
from rigs import untrained_policies as policies

onnxruntime = pytest.importorskip("onnxruntime", reason="needs the package onnxruntime (extra: export)")


def test_the_command_writes_what_was_asked_for(tmp_path, capsys):
    path = policies.save(tmp_path / "policy.safetensors", 1.0)
    out = tmp_path / "policy.onnx"
    assert export.main([f"checkpoint={path}", f"out={out}"]) == 0
    assert "onnxruntime's actions equal torch's within" in capsys.readouterr().out
    assert onnxruntime.InferenceSession(out.read_bytes()).get_inputs()[0].name == "obs"
    assert export.main([f"checkpoint={path}", f"out={tmp_path / 'policy.bin'}"]) == 2
    assert (
        capsys.readouterr().err == f"agent.export: out={tmp_path / 'policy.bin'}: must end in .onnx or .pt2\n"
    )
