"""Charts of a series over its last steps, as SVG: a line, a band around it, points, and a limit.

Each chart is drawn twice, for wide and for narrow screens: a picture that shrinks takes its labels along, and the
style sheet shows the one whose labels can be read.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

LEFT, RIGHT, TOP, BOTTOM = 52, 56, 8, 34
BLUE, BAND, DARK, MISSING, SOFT, GRID = "#2b5c8a", "#c9dcee", "#1f2933", "#b45309", "#52606d", "#e8edf2"


class Size(NamedTuple):
    """Width and height of a picture, and the class that the style sheet knows it by."""

    width: int
    height: int
    name: str


SIZES = (Size(900, 250, "wide"), Size(360, 230, "narrow"))


class Chart(NamedTuple):
    """What a picture shows; all sequences have one entry for each step, NaN where there is nothing to draw.

    Attributes:
        label: What it is, for readers of the page who do not see it.
        times: The steps.
        line: The line.
        low: The lower end of the band.
        high: The upper end of the band.
        points: Values drawn as points, or None.
        marked: Steps that get a mark on the line: those without an observation.
        limit: A dashed level, or None.
        floor: A value that the axis has to reach, or None.
    """

    label: str
    times: Sequence[int]
    line: Float[np.ndarray, " time"]
    low: Float[np.ndarray, " time"]
    high: Float[np.ndarray, " time"]
    points: Float[np.ndarray, " time"] | None = None
    marked: frozenset[int] = frozenset()
    limit: float | None = None
    floor: float | None = None


def draw(chart: Chart) -> str:
    """Return a chart in both sizes, or a sentence if there is nothing to draw."""
    if not np.any(np.isfinite(chart.line)):
        return "<p>The stored figures are not finite, so there is no picture.</p>"
    low, high = _range(chart)
    scales = [_Scale(size, chart.times[0], chart.times[-1], low, high) for size in SIZES]
    return "".join(f'<div class="{scale.size.name}">{_svg(chart, scale)}</div>' for scale in scales)


def _range(chart: Chart) -> tuple[float, float]:
    """Return what the axis spans: line and points whole, and the band but for a few steps on which it is huge."""
    whole = [chart.line, *([] if chart.points is None else [chart.points])]
    whole += [np.array([level]) for level in (chart.limit, chart.floor) if level is not None]
    ends = [np.quantile(end[np.isfinite(end)], levels) for end, levels in ((chart.low, 0.02), (chart.high, 0.98))]
    values = np.concatenate([*whole, np.array(ends)])
    values = values[np.isfinite(values)]
    return float(values.min()), float(values.max())


class _Scale(NamedTuple):
    """Where a step and a value stand on a picture."""

    size: Size
    first: int
    last: int
    low: float
    high: float

    @property
    def right(self) -> int:
        return self.size.width - RIGHT

    @property
    def bottom(self) -> int:
        return self.size.height - BOTTOM

    def across(self, time: int | float) -> float:
        return LEFT + (self.right - LEFT) * (time - self.first) / max(1, self.last - self.first)

    def up(self, value: float) -> float:
        inside = min(max(value, self.low), self.high)
        return self.bottom - (self.bottom - TOP) * (inside - self.low) / (self.high - self.low or 1.0)

    def points(self, times: Sequence[int], values: Float[np.ndarray, " time"]) -> list[str]:
        pairs = zip(times, values.tolist(), strict=True)
        return [f"{self.across(time):.1f},{self.up(value):.1f}" for time, value in pairs if math.isfinite(value)]


def _svg(chart: Chart, scale: _Scale) -> str:
    band = scale.points(chart.times, chart.low) + scale.points(chart.times, chart.high)[::-1]
    box = f"0 0 {scale.size.width} {scale.size.height}"
    parts = [
        f'<svg viewBox="{box}" role="img" aria-label="{html.escape(chart.label)}">',
        f'<polygon points="{" ".join(band)}" fill="{BAND}"/>',
        *_axes(scale),
        *([] if chart.limit is None else [_dashes(scale, chart.limit)]),
        f'<polyline points="{" ".join(scale.points(chart.times, chart.line))}" fill="none" stroke="{BLUE}" '
        'stroke-width="2"/>',
        *([] if chart.points is None else _dots(scale, chart.times, chart.points, DARK, "seen", 2.2)),
        *_marks(chart, scale),
        _last_value(chart, scale),
        "</svg>",
    ]
    return "".join(parts)


def _axes(scale: _Scale) -> list[str]:
    """Draw lines and numbers at round values, and numbers at round steps."""
    parts = []
    for tick in ticks(scale.low, scale.high):
        if scale.low <= tick <= scale.high:
            parts.append(f'<path d="M{LEFT} {scale.up(tick):.1f}H{scale.right}" stroke="{GRID}"/>')
            parts.append(_label(LEFT - 8, scale.up(tick) + 4, f"{tick:.4g}", ' text-anchor="end"'))
    for tick in ticks(float(scale.first), float(scale.last)):
        if scale.first <= tick <= scale.last and tick == int(tick):
            parts.append(_label(scale.across(tick), scale.size.height - 14, f"{int(tick):,}", ' text-anchor="middle"'))
    return [*parts, _label(scale.size.width - 4, scale.size.height - 14, "step", ' text-anchor="end"')]


def _dashes(scale: _Scale, level: float) -> str:
    return f'<path d="M{LEFT} {scale.up(level):.1f}H{scale.right}" stroke="{MISSING}" stroke-dasharray="5 4"/>'


def _dots(scale: _Scale, times: Sequence[int], values: np.ndarray, color: str, name: str, radius: float) -> list[str]:
    places = (one.split(",") for one in scale.points(times, values))
    return [f'<circle class="{name}" cx="{x}" cy="{y}" r="{radius}" fill="{color}"/>' for x, y in places]


def _marks(chart: Chart, scale: _Scale) -> list[str]:
    marked = np.array([time in chart.marked for time in chart.times])
    return _dots(scale, chart.times, np.where(marked, chart.line, np.nan), MISSING, "missing", 2.5)


def _last_value(chart: Chart, scale: _Scale) -> str:
    last = float(chart.line[np.isfinite(chart.line)][-1])
    return _label(scale.right + 6, scale.up(last) + 4, f"{last:.3g}", f' font-weight="600" style="fill:{BLUE}"')


def _label(x: int | float, y: int | float, text: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="12" fill="{SOFT}"{more}>{html.escape(text)}</text>'


def ticks(low: float, high: float) -> list[float]:
    """Return three to six round numbers that span a range.

    >>> ticks(0.13, 0.92)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    span = (high - low) or abs(high) or 1.0
    rough = span / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * min((1, 2, 5, 10), key=lambda factor: abs(factor * power - rough))
    first, last = math.floor(low / step), math.ceil(high / step)
    return [round(number * step, 12) for number in range(first, last + 1)]
