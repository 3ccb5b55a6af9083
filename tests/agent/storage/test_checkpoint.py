"""Checkpoints: exact round trips, refusals, and writers that are killed at any instant."""

import json
import math
import random
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import CheckpointError
from agent.storage import checkpoint, files


def bits(value):
    """A form in which equal means: same types, same order, same bits."""
    if isinstance(value, torch.Tensor):
        return ("tensor", str(value.dtype), tuple(value.shape), bytes(value.contiguous().untyped_storage()))
    if isinstance(value, np.ndarray | np.generic):
        return (type(value).__name__, value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, float):
        return ("float", struct.pack(">d", value))
    if isinstance(value, dict):
        return ("dict", [(bits(key), bits(item)) for key, item in value.items()])
    if isinstance(value, list | tuple):
        return (type(value).__name__, [bits(item) for item in value])
    return (type(value).__name__, value)


def round_trip(path, values):
    checkpoint.save(path, values)
    return checkpoint.load(path)


plain = (
    st.none() | st.booleans() | st.integers() | st.floats(width=64) | st.binary() | st.text("abcé'/\n\t\0")
)
keys = st.text("ab/'") | st.integers() | st.booleans() | st.tuples(st.integers(), st.text("ab"))
arrays = st.builds(
    lambda n, kind: np.arange(n).astype(kind), st.integers(0, 3), st.sampled_from("?bBhHiIlLefd")
)
leaves = plain | arrays | arrays.map(torch.from_numpy) | st.floats(width=32).map(np.float32)
nested = st.recursive(
    leaves, lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(keys, inner)
)


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(keys, nested))
def test_any_structure_comes_back_bit_for_bit(tmp_path_factory, values):
    path = tmp_path_factory.getbasetemp() / "any.safetensors"
    assert bits(round_trip(path, values)) == bits(values)


def test_corner_cases_come_back_bit_for_bit(tmp_path):
    odd_nan = struct.unpack(">d", bytes.fromhex("fff8000000000abc"))[0]
    values = {
        "float": [0.1, -0.0, 5e-324, 1.7976931348623157e308, math.inf, -math.inf, math.nan, odd_nan],
        "int": [2**200, -(2**63), 0],
        "strange strings": ["", "\ud800", "🐕", "a/b"],
        "dtypes": [torch.ones(3, dtype=dtype) for dtype in (torch.bfloat16, torch.float16, torch.complex64)],
        "shapes": [torch.tensor(1.5), torch.empty(0, 3), torch.arange(6).reshape(2, 3).t(), np.zeros((2, 0))],
        "a": {"b": torch.tensor(1)},
        "a/b": torch.tensor(2),
        0: torch.tensor(3),
        "0": torch.tensor(4),
        (1, "x"): {None: True, False: 0},
        "empty": [{}, [], (), b""],
    }
    assert bits(round_trip(tmp_path / "c.safetensors", values)) == bits(values)


def test_views_of_one_memory_are_stored_apart(tmp_path):
    whole = torch.arange(4.0)
    loaded = round_trip(tmp_path / "c.safetensors", {"whole": whole, "part": whole[1:3], "again": whole})
    loaded["part"][0] = 9
    assert loaded["whole"].tolist() == [0, 1, 2, 3] and loaded["part"].tolist() == [9, 2]


def test_random_states_go_on_where_they_were(tmp_path):
    generator, legacy = np.random.default_rng(1), np.random.RandomState(1)
    draws = [lambda: random.random(), lambda: torch.rand(3), generator.normal, legacy.normal]
    state = {
        "python": random.getstate(),
        "torch": torch.get_rng_state(),
        "generator": generator.bit_generator.state,
        "legacy": legacy.get_state(legacy=False),
    }
    checkpoint.save(tmp_path / "c.safetensors", state)
    expected = [bits(draw()) for draw in draws]
    loaded = checkpoint.load(tmp_path / "c.safetensors")
    random.setstate(loaded["python"])
    torch.set_rng_state(loaded["torch"])
    generator.bit_generator.state = loaded["generator"]
    legacy.set_state(loaded["legacy"])
    assert [bits(draw()) for draw in draws] == expected


@pytest.mark.parametrize("name", ["Adam", "AdamW", "RMSprop", "SGD"])
def test_training_goes_on_bit_for_bit(tmp_path, name):
    """Model, optimizer and scheduler restored half-way end where an uninterrupted run ends."""

    def build():
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
        options = {"momentum": 0.9} if name in ("SGD", "RMSprop") else {"betas": (0.8, 0.99)}
        optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.01, **options)
        return {
            "model": model,
            "optimizer": optimizer,
            "scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 3),
        }

    def train(parts, steps):
        for step in steps:
            batch = torch.randn(16, 4, generator=torch.Generator().manual_seed(step))
            parts["optimizer"].zero_grad()
            parts["model"](batch).square().mean().backward()
            parts["optimizer"].step()
            parts["scheduler"].step()
        return bits({key: part.state_dict() for key, part in parts.items()})

    straight = build()
    train(straight, range(5))
    checkpoint.save(tmp_path / "c.safetensors", {key: part.state_dict() for key, part in straight.items()})
    expected = train(straight, range(5, 10))

    resumed = build()
    train(resumed, range(100, 102))  # another past, which must not matter
    for key, state in checkpoint.load(tmp_path / "c.safetensors").items():
        resumed[key].load_state_dict(state)
    assert train(resumed, range(5, 10)) == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), "a/0: cannot store a object"),
        ({1, 2}, "a/0: cannot store a set"),
        (1j, "a/0: cannot store a complex"),
        (np.array(["text"]), "a/0: cannot store a NumPy array of dtype <U4"),
        (np.array([object()]), "a/0: cannot store a NumPy array of dtype object"),
        (torch.zeros(1, dtype=torch.complex128), "a/0: cannot store a tensor of dtype torch.complex128"),
    ],
)
def test_other_values_are_refused_by_name(tmp_path, value, message):
    with pytest.raises(TypeError, match=message):
        checkpoint.save(tmp_path / "c.safetensors", {"a": [value]})
    assert not list(tmp_path.iterdir())


def refusal(path):
    with pytest.raises(CheckpointError) as caught:
        checkpoint.load(path)
    message = str(caught.value)
    assert "\n" not in message and message.startswith(str(path))
    return message.removeprefix(f"{path}: ")


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "c.safetensors"
    checkpoint.save(path, {"weight": torch.arange(8.0), "step": 12345})
    return path


def test_every_truncation_is_refused(saved):
    content = saved.read_bytes()
    for length in range(len(content)):
        saved.write_bytes(content[:length])
        assert refusal(saved).startswith("truncated or no checkpoint")


def test_every_changed_byte_is_refused(saved):
    content = saved.read_bytes()
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 1
        saved.write_bytes(changed)
        refusal(saved)


def rewrite(path, **changes):
    """Write the checkpoint again with other metadata and a digest that fits them."""
    with safetensors.safe_open(path, framework="pt") as file:
        metadata = file.metadata() | changes
    tensors = safetensors.torch.load_file(path)
    path.write_bytes(
        safetensors.torch.save(tensors, metadata | {"digest": checkpoint.content_digest(metadata, tensors)})
    )


def test_newer_version_is_refused(saved):
    rewrite(saved, version="2")
    assert refusal(saved) == "of format version 2; this program reads up to 1"


def test_a_version_that_is_too_old_is_refused(saved):
    rewrite(saved, version="0")
    assert refusal(saved) == "of format version 0; this program reads none before 1"


@pytest.mark.parametrize(
    "tree",
    [
        "{",
        '{"tensor": "other"}',
        '{"call": "os.system"}',
        "{}",
        '{"dict": 1}',
        '{"dict": [[[], 1]]}',
        "[" * 10**5,
    ],
)
def test_malformed_structure_is_refused(saved, tree):
    rewrite(saved, tree=tree)
    assert refusal(saved).startswith("damaged: ")


def test_foreign_files_are_refused(tmp_path):
    path = tmp_path / "c.safetensors"
    assert refusal(path) == "there is no such checkpoint"
    torch.save({"a": torch.zeros(2)}, path)  # a pickle
    assert refusal(path).startswith("truncated or no checkpoint")
    safetensors.torch.save_file({"a": torch.zeros(2)}, path)
    assert refusal(path) == "a safetensors file, but no checkpoint of this program"


def test_unwritable_place_is_one_line(tmp_path):
    with pytest.raises(CheckpointError, match="cannot write the checkpoint: No such file or directory"):
        checkpoint.save(tmp_path / "nowhere" / "c.safetensors", {})


def test_history_names_sort_by_version():
    names = [checkpoint.history("run/checkpoint.safetensors", version) for version in (7, 123, 999_999)]
    assert names[1] == Path("run/checkpoint-v000123.safetensors")
    assert names == sorted(names)


WRITER = """
import sys, torch
from agent.storage import checkpoint
path = sys.argv[1]
try:
    step = checkpoint.load(path)["step"]
except checkpoint.CheckpointError:
    step = 0
print("ready", flush=True)
while True:
    step += 1
    checkpoint.save(path, {"step": step, "weights": torch.full((200_000,), float(step))})
"""


def test_killed_writers_leave_the_last_complete_checkpoint(tmp_path):
    """SIGKILL at random instants of a process that only saves; the next one goes on from the file."""
    path, step = tmp_path / "checkpoint.safetensors", 0
    instants = random.Random(0)
    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE) as writer:
            assert writer.stdout.readline() == b"ready\n"
            time.sleep(0.1 + 0.1 * instants.random())
            writer.kill()
        loaded = checkpoint.load(path)
        assert loaded["step"] > step
        step = loaded["step"]
        assert torch.equal(loaded["weights"], torch.full((200_000,), float(step)))


def test_kill_within_the_write_changes_nothing_and_is_cleaned_up(saved, monkeypatch):
    """The process dies at its worst instant: all written, not yet renamed."""
    program = (
        "import os, signal, sys; from agent.storage import checkpoint, files\n"
        "files.os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "checkpoint.save(sys.argv[1], {'step': 2})"
    )
    assert subprocess.run([sys.executable, "-c", program, str(saved)]).returncode == -9
    (left,) = saved.parent.glob(".*.tmp")
    assert checkpoint.load(saved)["step"] == 12345
    checkpoint.save(checkpoint.history(saved, 1), {})
    assert left.exists()  # too young: it could belong to a living writer
    monkeypatch.setattr(files, "STALE_AFTER", -1.0)
    checkpoint.save(checkpoint.history(saved, 2), {})
    assert not left.exists()


def test_failed_rename_leaves_no_temporary_file(saved, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "replace", fail)
    with pytest.raises(CheckpointError, match="cannot write the checkpoint: No space left on device"):
        checkpoint.save(saved, {"step": 2})
    assert [path.name for path in saved.parent.iterdir()] == ["c.safetensors"]
    assert checkpoint.load(saved)["step"] == 12345


def test_tensors_are_readable_by_other_tools(saved):
    assert safetensors.torch.load_file(saved)["weight"].tolist() == list(range(8))
    with safetensors.safe_open(saved, framework="np") as file:
        assert json.loads(file.metadata()["tree"])["dict"][1] == ["step", 12345]


def test_tensors_lie_where_torch_puts_its_own(tmp_path):
    """Wherever they lay in the file: kernels that round by alignment must not see where they came from."""
    path = tmp_path / "checkpoint.safetensors"
    for length in range(1, 17):
        checkpoint.save(path, {"name": "x" * length, "tensors": [torch.ones(3), torch.ones(5, 7)]})
        assert all(tensor.data_ptr() % 64 == 0 for tensor in checkpoint.load(path)["tensors"])
