"""The contest's results as tables and pictures: `python -m benchmarks.contest.table [problem ...]` prints them."""

from __future__ import annotations

import itertools
import sys
from typing import Any

import numpy as np

from benchmarks.contest import rows
from benchmarks.problems import CONTEST

HEADER = (
    "| algorithm | size | error of the mean | of log sd | cover of 90 % | CPU s | first | MB |",
    "|---|---|---|---|---|---|---|---|",
)

OWN, BLUE = "ours default", "#0072b2"
COLOURS = ("#d55e00", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#000000", "#999999")
"""Of Okabe and Ito, which the colour-blind can tell apart."""


def table(problem: str) -> str:
    """Return all rungs of a problem in Markdown; good enough at the end is bold."""
    return "\n".join([*HEADER, *(_line(row, verdict) for row, verdict in rows.judged(problem))])


def _line(row: rows.Row, verdict: rows.Verdict) -> str:
    errors = [_number(error) for error in verdict.error]
    if verdict.reaches:
        errors[-1] = f"**{errors[-1]}**"
    low, high = verdict.spread
    cells = (
        name_of(row),
        " x ".join(f"{size:,}" for size in row["size"].values()),
        ", ".join(errors),
        _number(verdict.log_sd_error[-1]),
        "–" if np.isnan(verdict.cover[-1]) else f"{verdict.cover[-1]:.2f}",
        f"{_number(verdict.cpu_seconds)} ({_number(low)} to {_number(high)})",
        _number(row["runs"][0]["cpu_seconds_first"]),
        f"{verdict.peak_mb:.0f}",
    )
    return f"| {' | '.join(cells)} |"


def name_of(row: rows.Row) -> str:
    """Name an algorithm."""
    return f"{row['library']} `{row['algorithm']}`"


def _number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.2g}" if abs(value) < 10 else f"{value:.0f}"


def headline() -> str:
    """Return, for each problem that was run, what 0.25 sds cost our default, our other presets, and the best rival."""
    lines = [
        "| problem | our default | our other presets | the best rival | rival / default |",
        "|---|---|---|---|---|",
    ]
    for problem in CONTEST:
        if not rows.load(problem):
            continue
        default, presets, rival = (rows.cheapest(problem, kind) for kind in ("default", "preset", "rival"))
        ratio = _number(rival[1] / default[1]) if default and rival else "–"
        lines.append(f"| `{problem}` | {_winner(default)} | {_winner(presets)} | {_winner(rival)} | {ratio} |")
    return "\n".join(lines)


def _winner(pair: tuple[rows.Row, float] | None) -> str:
    if pair is None:
        return "none that was run"
    size = " x ".join(f"{size:,}" for size in pair[0]["size"].values())
    return f"{name_of(pair[0])}, {size}: {_number(pair[1])} CPU s"


def picture(problem: str, axes: Any) -> None:
    """Draw error against CPU seconds, a line for each ladder."""
    ladders: dict[str, list[tuple[float, float]]] = {}
    for row, verdict in rows.judged(problem):
        ladders.setdefault(name_of(row).replace("`", ""), []).append((verdict.cpu_seconds, float(verdict.error[-1])))
    colours = dict(zip((name for name in ladders if name != OWN), itertools.cycle(COLOURS)))
    for name, points in ladders.items():
        seconds, errors = zip(*sorted(points), strict=True)
        own = name == OWN
        axes.plot(
            seconds,
            errors,
            marker="o",
            ms=7 if own else 4,
            lw=2.5 if own else 1,
            label=name,
            zorder=3 if own else 2,
            color=BLUE if own else colours[name],
            ls="-" if name.startswith("ours") else "--",
        )
    axes.axhline(rows.GOOD_ENOUGH, color="0.5", lw=0.8, zorder=1)
    axes.set(xscale="log", yscale="log", title=problem, xlabel="CPU seconds for the stream", ylabel="error, sds")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter("")


if __name__ == "__main__":
    print(headline())
    for name in sys.argv[1:] or [name for name in CONTEST if rows.load(name)]:
        print(f"\n{name}\n\n{table(name)}")
