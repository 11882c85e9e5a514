"""A small page: how the fleet is, and the ribbon of a series' parameters. Plain HTML and SVG, nothing is loaded."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import NamedTuple

from paramfilter.outcome import Outcome
from paramfilter_streams import Fate, Posterior, Worker
from paramfilter_streams.serving.metrics import BUCKETS, Metrics

SERIES_SHOWN = 50

NINETY = 1.645
"""Standard deviations on each side of the mean that hold 90 % of a Gaussian."""

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 260, 52, 64, 8, 34

STYLE = """
:root { color-scheme: light; --ink: #1f2933; --soft: #5f6b7a; --line: #dde3ea; --blue: #2b5c8a; --band: #c9dcee }
* { box-sizing: border-box }
body { margin: 0; font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; color: var(--ink); background: #f6f8fa }
main { max-width: 940px; margin: 0 auto; padding: 32px 20px 64px }
h1 { font-size: 24px; margin: 0 } h2 { font-size: 17px; margin: 36px 0 10px }
h3 { font-size: 15px; margin: 2px 0 6px } h3 .note { font-weight: 400; margin-left: 8px }
header { display: flex; align-items: center; justify-content: space-between; gap: 16px; margin-bottom: 24px }
.state { padding: 3px 12px; border-radius: 999px; font-weight: 600; font-size: 14px }
.good { background: #dcf1e3; color: #1d6b3a } .bad { background: #fbe0dd; color: #9b2c20 }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(160px, 1fr)); gap: 12px }
.tile, .card { background: #fff; border: 1px solid var(--line); border-radius: 8px; padding: 12px 14px }
.tile b { display: block; font-size: 22px; font-variant-numeric: tabular-nums }
.tile span { color: var(--soft); font-size: 13px }
.scroll { overflow-x: auto; background: #fff; border: 1px solid var(--line); border-radius: 8px }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { text-align: right; padding: 7px 14px; border-top: 1px solid var(--line); white-space: nowrap }
tr:first-child th { border-top: 0; color: var(--soft); font-weight: 600; font-size: 13px }
th:first-child, td:first-child { text-align: left } a { color: var(--blue) }
p, .note { color: var(--soft) } svg { display: block; width: 100%; height: auto } .card { margin-bottom: 14px }
"""


def fleet_page(worker: Worker, metrics: Metrics) -> str:
    """Return the page of the whole fleet."""
    partitions = worker.partitions
    total = {fate: sum(one.counts[fate] for one in partitions.values()) for fate in Fate}
    tiles = [("series", f"{len(worker.residents.names):,}")]
    tiles += [("events received", f"{sum(one.received for one in partitions.values()):,}")]
    tiles += [(fate.value, f"{count:,}") for fate, count in total.items()]
    tiles += [
        ("waiting", f"{sum(one.waiting for one in partitions.values()):,}"),
        ("filled steps", f"{sum(one.filled for one in partitions.values()):,}"),
        ("p99 delay", _delay(metrics.delay_quantile(0.99))),
    ]
    cells = "".join(f'<div class="tile"><b>{value}</b><span>{name}</span></div>' for name, value in tiles)
    rows = [
        [html.escape(name), f"{one.offset:,}", f"{one.num_series:,}", f"{one.received:,}", f"{one.filled:,}"]
        for name, one in sorted(partitions.items())
    ]
    log = _table(["partition", "next offset", "series", "events", "filled steps"], rows)
    return _page(
        "Fleet", f"{_heading('Fleet', worker)}<div class='tiles'>{cells}</div><h2>Log</h2>{log}{_series_table(worker)}"
    )


def series_page(worker: Worker, name: str, posteriors: Sequence[Posterior]) -> str:
    """Return the page of one series; there must be a posterior."""
    last = posteriors[-1]
    words = f"{last.sequence:,} steps. The last: {last.fate}, {_trouble(last)}."
    cards = "".join(_card(one, posteriors) for one in _parameters(last.figures))
    note = "Line: posterior mean. Band: mean ± 1.645 posterior sd. Dots: steps without an observation."
    back = '<p><a href="/">← all series</a></p>'
    return _page(name, f"{back}{_heading(html.escape(name), worker)}<p>{words}</p>{cards}<p class='note'>{note}</p>")


def _card(parameter: str, posteriors: Sequence[Posterior]) -> str:
    figures = posteriors[-1].figures
    now = f"{figures[f'mean:{parameter}']:.3f} ± {figures[f'sd:{parameter}']:.3f}"
    title = f'<h3>{html.escape(parameter)} <span class="note">{now}</span></h3>'
    return f'<div class="card">{title}{ribbon(parameter, posteriors)}</div>'


def ribbon(parameter: str, posteriors: Sequence[Posterior]) -> str:
    """Draw mean and 90 % band of a parameter over the last steps."""
    times = [one.sequence for one in posteriors]
    means = [one.figures[f"mean:{parameter}"] for one in posteriors]
    sds = [NINETY * one.figures[f"sd:{parameter}"] for one in posteriors]
    lows, highs = ([mean + sign * sd for mean, sd in zip(means, sds, strict=True)] for sign in (-1, 1))
    scale = _Scale(times[0], times[-1], min(lows), max(highs))
    if not (math.isfinite(scale.low) and math.isfinite(scale.high)):
        return f"<p>{html.escape(parameter)}: the last figures are not finite.</p>"
    points = lambda values: [scale.point(*pair) for pair in zip(times, values, strict=True)]
    band = " ".join(points(lows) + points(highs)[::-1])
    end = ' font-weight="600" style="fill:#2b5c8a"'
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(parameter)} over time">',
        *_axes(scale),
        f'<polygon points="{band}" fill="#c9dcee"/>',
        f'<polyline points="{" ".join(points(means))}" fill="none" stroke="#2b5c8a" stroke-width="2"/>',
        *(_dot(scale, one.sequence, mean) for one, mean in zip(posteriors, means, strict=True) if _is_empty(one)),
        _label(WIDTH - RIGHT + 8, scale.up(means[-1]) + 4, f"{means[-1]:.4g}", end),
        "</svg>",
    ]
    return "".join(parts)


class _Scale(NamedTuple):
    """Where a step and a value stand on the picture."""

    first: int
    last: int
    low: float
    high: float

    def across(self, time: int | float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (time - self.first) / max(1, self.last - self.first)

    def up(self, value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - self.low) / (self.high - self.low or 1.0)

    def point(self, time: int | float, value: float) -> str:
        return f"{self.across(time):.1f},{self.up(value):.1f}"


def _axes(scale: _Scale) -> list[str]:
    """Draw lines and numbers at round values, and numbers at round steps."""
    parts = []
    for tick in _ticks(scale.low, scale.high):
        if scale.low <= tick <= scale.high:
            parts.append(f'<path d="M{LEFT} {scale.up(tick):.1f}H{WIDTH - RIGHT}" stroke="#e8edf2"/>')
            parts.append(_label(LEFT - 8, scale.up(tick) + 4, f"{tick:.4g}", ' text-anchor="end"'))
    for tick in _ticks(float(scale.first), float(scale.last)):
        if scale.first <= tick <= scale.last and tick == int(tick):
            parts.append(_label(scale.across(tick), HEIGHT - 12, f"{int(tick):,}", ' text-anchor="middle"'))
    return [*parts, _label(WIDTH - RIGHT + 28, HEIGHT - 12, "step")]


def _label(x: int | float, y: int | float, text: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="12" fill="#5f6b7a"{more}>{text}</text>'


def _dot(scale: _Scale, time: int, value: float) -> str:
    return f'<circle cx="{scale.across(time):.1f}" cy="{scale.up(value):.1f}" r="2.5" fill="#b45309"/>'


def _is_empty(posterior: Posterior) -> bool:
    """Tell whether a step had no observation."""
    return posterior.fate != Fate.APPLIED


def _series_table(worker: Worker) -> str:
    names = sorted(worker.residents.names)
    rows, parameters = [], []
    for name in names[:SERIES_SHOWN]:
        posteriors = worker.latest(name)
        if posteriors:
            last = posteriors[-1]
            parameters = _parameters(last.figures)
            means = [f"{last.figures[f'mean:{one}']:.3f} ± {last.figures[f'sd:{one}']:.3f}" for one in parameters]
            link = f'<a href="/series/{html.escape(name)}">{html.escape(name)}</a>'
            rows.append(
                [link, f"{last.sequence:,}", *means, f"{last.figures.get('ess', math.nan):.0f}", _trouble(last)]
            )
    if not rows:
        return "<h2>Series</h2><p>No series yet.</p>"
    shown = f" <span class='note'>(first {len(rows)} of {len(names):,})</span>" if len(rows) < len(names) else ""
    heads = ["series", "steps", *(f"{html.escape(one)} (mean ± sd)" for one in parameters), "ESS", "last step"]
    return f"<h2>Series{shown}</h2>{_table(heads, rows)}"


def _trouble(posterior: Posterior) -> str:
    flags = Outcome(int(posterior.figures.get("outcome", 0)))
    return "all is well" if not flags else " ".join(flag.name or "" for flag in flags).lower().replace("_", " ")


def _heading(title: str, worker: Worker) -> str:
    if worker.cannot_commit:
        kind, words = "bad", "cannot write to disk"
    else:
        kind, words = ("good", "ready") if worker.is_ready else ("bad", "starting")
    return f'<header><h1>{title}</h1><span class="state {kind}">{words}</span></header>'


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{one}</th>" for one in heads)
    body = "".join("<tr>" + "".join(f"<td>{one}</td>" for one in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


def _parameters(figures: dict[str, float]) -> list[str]:
    return [name.removeprefix("mean:") for name in figures if name.startswith("mean:")]


def _ticks(low: float, high: float) -> list[float]:
    """Return three to six round numbers that span a range.

    >>> _ticks(0.13, 0.92)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    span = (high - low) or abs(high) or 1.0
    rough = span / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * min((1, 2, 5, 10), key=lambda factor: abs(factor * power - rough))
    first, last = math.floor(low / step), math.ceil(high / step)
    return [round(number * step, 12) for number in range(first, last + 1)]


def _delay(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    if seconds == math.inf:
        return f"> {BUCKETS[-1]:g} s"
    return f"≤ {1000 * seconds:g} ms" if seconds < 1 else f"≤ {seconds:g} s"


def _page(title: str, body: str) -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)} · paramfilter</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta http-equiv="refresh" content="5">'
        f"<style>{STYLE}</style></head><body><main>{body}</main></body></html>"
    )
