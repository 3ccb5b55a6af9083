"""Plots as files."""

import pytest


def test_svg(plot, log, tmp_path):
    picture = tmp_path / "out.svg"
    assert plot(log, "--svg", picture, "--ykey", "mean_episode_return,entropy", "--panels")[0] == 0
    assert picture.read_text().rstrip().endswith("</svg>")


def test_png_holds_the_curves(plot, log, tmp_path):
    """The picture has coloured pixels from the lower left to the upper right."""
    image = pytest.importorskip("matplotlib.image")
    picture = tmp_path / "out.png"
    assert plot(log, "--png", picture) == (0, f"wrote {picture}\n", "")
    pixels = image.imread(picture)[..., :3]
    assert pixels.shape[0] >= 500 and pixels.shape[1] >= 900
    height, width = pixels.shape[:2]
    coloured = pixels.max(-1) - pixels.min(-1) > 0.4
    lower_left, upper_right = (
        coloured[3 * height // 4 :, : width // 4],
        coloured[: height // 4, 3 * width // 4 :],
    )
    lower_right = coloured[3 * height // 4 :, 3 * width // 4 :]
    assert lower_left.any() and upper_right.any() and not lower_right.any()
