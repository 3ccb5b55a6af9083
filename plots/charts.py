"""Charts as inline SVG. Colours come from the page's style sheet, so that they follow light and dark mode.

Every chart carries its numbers in `data-chart`; the page's script shows them under the pointer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from matplotlib.ticker import MaxNLocator

WIDTH, HEIGHT = 540, 230  # units of the drawing, pixels at full size
LEFT, RIGHT, TOP, BOTTOM = 50, 12, 10, 34  # margins around the plotting area
STEPS = [1, 2, 2.5, 5, 10]  # between ticks, times a power of ten
TICKS, WHOLE_TICKS = (MaxNLocator(nbins=5, steps=STEPS, integer=whole) for whole in (False, True))
MAX_POINTS = 400  # of a line; longer ones are thinned


@dataclass(frozen=True)
class Line:
    """One curve: `x` and `y` `[points]`, NaN where there is no value; `low` and `high` bound its band."""

    label: str
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    dashed: bool = False
    steps: bool = False
    color: int = 0


@dataclass(frozen=True)
class Chart:
    """A titled chart.

    Attributes:
        title: Of the chart.
        unit: Of the y axis.
        lines: The curves.
        x_unit: Name and unit of the x axis.
        note: A sentence below the chart.
        stacked: The curves are areas on top of one another.
        whole: The values are counts, so that ticks are whole numbers.
    """

    title: str
    unit: str
    lines: Sequence[Line]
    x_unit: str
    note: str = ""
    stacked: bool = False
    whole: bool = False

    @property
    def svg(self) -> Markup:
        """The drawing, or a line that says that there is nothing to draw."""
        lines = [line for line in map(_thin, self.lines) if np.isfinite(line.y).any()]
        if not lines:
            return Markup('<p class="muted">no values in the log</p>')
        if self.stacked:
            lines = _stack(lines)
        scale = _Scale(lines, self.whole)
        shapes = [*_axes(scale, self.x_unit), *(_area(line, scale) for line in lines)]
        shapes += [_curve(line, scale) for line in lines if not self.stacked]
        data = {
            "x": [scale.x0, scale.x1, LEFT, WIDTH - RIGHT],
            "xUnit": self.x_unit,
            "lines": [
                {
                    "label": line.label,
                    "color": line.color,
                    "x": _numbers(line.x),
                    "y": _numbers(own.y),
                }
                for line, own in zip(lines, map(_thin, self.lines), strict=False)
            ],
        }
        return Markup(
            '<svg viewBox="0 0 {} {}" role="img" aria-label="{}" data-chart="{}">{}'
            '<line class="pointer" y1="{}" y2="{}"/></svg>'
        ).format(WIDTH, HEIGHT, self.title, json.dumps(data), Markup("").join(shapes), TOP, HEIGHT - BOTTOM)


class _Scale:
    """The map from values to places in the drawing."""

    def __init__(self, lines: Sequence[Line], whole: bool) -> None:
        xs = np.concatenate([line.x[np.isfinite(line.y)] for line in lines])
        values = [part for line in lines for part in (line.y, line.low, line.high) if part is not None]
        ys = np.concatenate(values)
        ys = ys[np.isfinite(ys)]
        self.x0, self.x1 = float(xs.min()), float(xs.max())
        if self.x0 == self.x1:
            self.x0, self.x1 = self.x0 - 0.5, self.x1 + 0.5
        low, high = min(float(ys.min()), 0.0), max(float(ys.max()), 0.0)
        ticks = WHOLE_TICKS if whole else TICKS
        self.ticks = ticks.tick_values(low, high if high > low else low + 1)
        self.y0, self.y1 = float(self.ticks[0]), float(self.ticks[-1])

    def x(self, value: np.ndarray | float) -> np.ndarray:
        return LEFT + (np.asarray(value) - self.x0) / (self.x1 - self.x0) * (WIDTH - LEFT - RIGHT)

    def y(self, value: np.ndarray | float) -> np.ndarray:
        return HEIGHT - BOTTOM - (np.asarray(value) - self.y0) / (self.y1 - self.y0) * (HEIGHT - TOP - BOTTOM)


def _thin(line: Line) -> Line:
    """Return a line of at most `MAX_POINTS` points: means of neighbours, and the extremes of a band."""
    size = -(-len(line.x) // MAX_POINTS)
    if size <= 1:
        return line

    def reduce(values: np.ndarray | None, how: str) -> np.ndarray | None:
        if values is None:
            return None
        padded = np.pad(values, (0, -len(values) % size), constant_values=np.nan).reshape(-1, size)
        with np.errstate(all="ignore"):
            empty = np.isnan(padded).all(axis=1)
            filled = np.where(empty[:, None], 0.0, padded)
            return np.where(empty, np.nan, getattr(np, f"nan{how}")(filled, axis=1))

    x, y = reduce(line.x, "mean"), reduce(line.y, "max" if line.steps else "mean")
    assert x is not None and y is not None
    low, high = reduce(line.low, "min"), reduce(line.high, "max")
    return Line(line.label, x, y, low, high, line.dashed, line.steps, line.color)


def _stack(lines: Sequence[Line]) -> list[Line]:
    """Return each line on top of those before it, with a band that reaches down to them."""
    stacked, floor = [], np.zeros(len(lines[0].x))
    for line in lines:
        top = floor + np.nan_to_num(line.y)
        stacked.append(Line(line.label, line.x, top, floor, top, color=line.color))
        floor = top
    return stacked


def _axes(scale: _Scale, x_unit: str) -> list[Markup]:
    shapes = []
    for tick in scale.ticks:
        y = float(scale.y(tick))
        shapes.append(
            Markup('<line class="{}" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(
                "zero" if tick == 0 else "grid", LEFT, WIDTH - RIGHT, y, y
            )
        )
        shapes.append(_text(LEFT - 7, y + 4, number(float(tick)), "end"))
    for tick in TICKS.tick_values(scale.x0, scale.x1):
        if scale.x0 <= tick <= scale.x1:
            shapes.append(_text(float(scale.x(tick)), HEIGHT - BOTTOM + 16, number(float(tick)), "middle"))
    shapes.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 3, x_unit, "middle"))
    return shapes


def _text(x: float, y: float, text: str, anchor: str) -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(x, y, anchor, text)


def _area(line: Line, scale: _Scale) -> Markup:
    if line.low is None or line.high is None:
        return Markup("")
    there = np.isfinite(line.low) & np.isfinite(line.high)
    x, low, high = line.x[there], line.low[there], line.high[there]
    outline = [*_points(scale.x(x), scale.y(high)), *_points(scale.x(x), scale.y(low))[::-1]]
    return Markup('<polygon class="area c{}" points="{}"/>').format(line.color, " ".join(outline))


def _curve(line: Line, scale: _Scale) -> Markup:
    there = np.isfinite(line.y)
    x, y = scale.x(line.x[there]), scale.y(line.y[there])
    if line.steps:
        x, y = np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1]
    style = "line dashed" if line.dashed else "line"
    if len(x) == 1:
        return Markup('<circle class="dot c{}" cx="{:.1f}" cy="{:.1f}" r="3"/>').format(
            line.color, x[0], y[0]
        )
    points = " ".join(_points(x, y))
    return Markup('<polyline class="{} c{}" points="{}"/>').format(style, line.color, points)


def _points(x: np.ndarray, y: np.ndarray) -> list[str]:
    return [f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True)]


def _numbers(values: np.ndarray) -> list[float | None]:
    """Return four digits of each value, or None for NaN, which JSON lacks."""
    return [float(f"{value:.4g}") if np.isfinite(value) else None for value in values]


def number(value: float, digits: int = 4) -> str:
    """Return a number as text: `12,300`, `0.05`, `1.2 M`; a dash for one that is not finite."""
    if not np.isfinite(value):
        return "–"
    if abs(value) >= 1e6:
        return f"{value / 1e6:.{digits}g} M"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"
