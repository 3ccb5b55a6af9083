"""The command that films."""

import pytest

from agent import play
from rigs import untrained_policies as policies


@pytest.mark.parametrize("suffix", ["mp4", "gif"])
def test_the_command_films(opengl, tmp_path, capsys, suffix):
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="needs the package imageio-ffmpeg")
    path, out = policies.save(tmp_path / "policy.safetensors", 0.0), tmp_path / f"out.{suffix}"
    key = {"mp4": "video", "gif": "gif"}[suffix]
    arguments = [
        f"checkpoint={path}",
        f"--{key}",
        str(out),
        "seconds=0.6",
        "width=96",
        "height=64",
        "robots=2",
    ]
    assert play.main(arguments) == 0
    frames, seconds = imageio_ffmpeg.count_frames_and_secs(str(out))
    assert frames == {"mp4": 15, "gif": 10}[suffix]
    assert seconds == pytest.approx(0.6, abs=0.05)
    assert str(out) in capsys.readouterr().out
