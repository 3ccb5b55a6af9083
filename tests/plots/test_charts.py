"""The drawings of a report, corner by corner."""

import math
import re

import numpy as np

from plots.charts import Chart, Line, number


def points(svg, kind):
    """Return the corners of every polyline or polygon, in the drawing's units."""
    found = re.findall(rf'<{kind} class="[^"]*" points="([^"]*)"', svg)
    return [np.array([pair.split(",") for pair in one.split()], float) for one in found]


def test_a_line_reaches_from_corner_to_corner():
    x = np.array([0.0, 5.0, 10.0])
    (line,) = points(Chart("t", "", [Line("a", x, x * 100)], "s").svg, "polyline")
    np.testing.assert_allclose(line, [[50, 196], [289, 103], [528, 10]])
    (line,) = points(Chart("t", "", [Line("a", x, np.array([1000, np.nan, 0]))], "s").svg, "polyline")
    np.testing.assert_allclose(line, [[50, 10], [528, 196]])
    (line,) = points(Chart("t", "", [Line("a", x, np.array([1, 1, 0]), steps=True)], "s").svg, "polyline")
    np.testing.assert_allclose(line, [[50, 10], [289, 10], [289, 10], [528, 10], [528, 196]])


def test_areas_are_stacked():
    x, half = np.array([0.0, 1.0]), np.full(2, 0.5)
    lower, upper = points(
        Chart("t", "", [Line("a", x, half), Line("b", x, half)], "s", stacked=True).svg, "polygon"
    )
    assert set(lower[:, 1]) == {103, 196} and set(upper[:, 1]) == {10, 103}


def test_long_lines_are_thinned_to_means_and_extremes():
    y = np.tile([0.0, 1.0], 2000)
    (area,), (line,) = (
        points(Chart("t", "", [Line("a", np.arange(4000.0), y, y, y)], "s").svg, kind)
        for kind in ("polygon", "polyline")
    )
    assert len(line) == 400 and set(line[:, 1]) == {103} and set(area[:, 1]) == {10, 196}


def test_numbers_for_people():
    values = (0.05, 123.456, 12345.6, 3e6, math.nan)
    assert [number(value) for value in values] == ["0.05", "123.5", "12,346", "3 M", "–"]
