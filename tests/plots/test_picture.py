"""Plots as files."""

import re

import pytest

from tests.plots.made_runs import logs_of, write


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


def texts(path):
    """Return the texts of an SVG, which matplotlib tells in comments."""
    return [text.strip() for text in re.findall(r"<!--(.*?)-->", path.read_text())]


def test_axes_have_names_and_units_and_legends_are_short(plot, tmp_path):
    logs_of(tmp_path, a=(1, [1, 2]), b=(2, [3, 4]), **{"long" * 20: (3, [5, 6])})
    picture = tmp_path / "out.svg"
    assert plot(tmp_path, "--svg", picture, "--ykey", "mean_episode_return,entropy")[0] == 0
    found = texts(picture)
    assert "step [policy steps]" in found and "mean_episode_return, entropy [nats]" in found
    assert {"a entropy", "b mean_episode_return"} <= set(found)
    assert max(map(len, found)) <= 45


def test_logarithmic_axes_have_decades_as_ticks(plot, tmp_path):
    log = write(tmp_path / "logs.tsv", [(300, 2, 0), (500, 3, 0)])
    picture = tmp_path / "out.svg"
    assert plot(log, "--svg", picture, "--logx", "--logy")[0] == 0
    ticks = {text for text in texts(picture) if "10^{" in text}
    assert {re.search(r"10\^\{(-?\d+)\}", tick)[1] for tick in ticks} == {"0", "1", "2", "3"}
    assert not any("times" in text for text in texts(picture))


def test_logs_that_do_not_overlap_make_a_picture(plot, tmp_path):
    for name, start in (("a", 10), ("b", 100), ("c", 1000)):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "logs.tsv", [(start, 1, 0), (start + 1, 2, 0)])
    picture = tmp_path / "out.png"
    assert plot(tmp_path, "--group", "all", "--png", picture) == (0, f"wrote {picture}\n", "")
    assert picture.stat().st_size > 0
    status, out, _ = plot(tmp_path, "--group", "all")
    assert status == 0 and "all (3): 2" in out


@pytest.mark.parametrize("steps", [[5], [0, 1, 2, 1000]])
def test_a_value_without_a_line_is_a_dot(plot, tmp_path, steps):
    image = pytest.importorskip("matplotlib.image")
    log = write(tmp_path / "logs.tsv", [(step, 3, 0) for step in steps])
    picture = tmp_path / "out.png"
    assert plot(log, "--png", picture)[0] == 0
    pixels = image.imread(picture)[..., :3]
    coloured = pixels.max(-1) - pixels.min(-1) > 0.4
    right = coloured[:, pixels.shape[1] // 2 :][200:400]  # the legend is above or below
    assert right.any() or (len(steps) == 1 and coloured[200:400].any())
    if len(steps) > 1:  # and nothing in between
        assert not coloured[280:330, 300:900].any()
