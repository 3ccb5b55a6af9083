"""The figure of section C, as an image and in the terminal."""

from envs.lab import figure, throughput


def test_the_figure_has_both_panels(tmp_path, rows):
    figure.png(rows, tmp_path / "lab.png")
    assert (tmp_path / "lab.png").read_bytes().startswith(b"\x89PNG")
    assert [line for line, _ in figure.lines(rows)] == [
        ("herd", state, threads) for state in throughput.STATES for threads in (1, 2)
    ]
    shown = figure.terminal(rows, width=80, color=False)
    for text in ("per second", "per processor second", "AA herd, standing", "BB herd, training"):
        assert text in shown
    assert "\x1b" not in shown
