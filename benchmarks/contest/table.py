"""The contest's results as tables and pictures: `python -m benchmarks.contest.table [problem ...]` prints them."""

from __future__ import annotations

import itertools
import json
import sys
from typing import Any

import numpy as np

from benchmarks.contest import rows
from benchmarks.problems import CONTEST
from benchmarks.tables import RESULTS

HEADER = (
    "| algorithm | size | error of the mean | of log sd | cover of 90 % | CPU s | first | MB |",
    "|---|---|---|---|---|---|---|---|",
)

OWN, BLUE = "ours default", "#0072b2"
COLOURS = ("#d55e00", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#000000", "#999999")
"""Of Okabe and Ito, which the colour-blind can tell apart."""


def problems() -> list[str]:
    """Return the problems of which some row was judged at the end."""
    return [name for name in CONTEST if any(np.isfinite(verdict.error[-1]) for _, verdict in rows.judged(name))]


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
        _size(row),
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
    """Return, for each problem that was run, what 0.25 sds cost our default, our other presets, and the best rival.

    The last column is the rival's cost over that of the cheapest of ours; without a rival, that of the dearest rung
    that a rival has tried.
    """
    lines = [
        "| problem | our default | our other presets | the best rival | rival / cheapest of ours |",
        "|---|---|---|---|---|",
    ]
    for problem in problems():
        default, presets, rival = (rows.cheapest(problem, kind) for kind in ("default", "preset", "rival"))
        own = min((found[1] for found in (default, presets) if found), default=np.nan)
        ratio = _number(rival[1] / own) if rival else _at_least(dearest_rival(problem) / own)
        lines.append(f"| `{problem}` | {_winner(default)} | {_winner(presets)} | {_winner(rival)} | {ratio} |")
    return "\n".join(lines)


def _at_least(ratio: float) -> str:
    return f"> {_number(ratio)}" if ratio > 1 else "–"


def dearest_rival(problem: str) -> float:
    """Return the CPU seconds of the dearest rung that a rival has tried; NaN if none has."""
    tried = [
        verdict.cpu_seconds
        for row, verdict in rows.judged(problem)
        if rows.kind_of(row["library"], row["algorithm"]) == "rival"
    ]
    return max(tried, default=np.nan)


def one_more() -> str:
    """Return what one more observation costs, in Markdown."""
    lines = ["| problem | t | algorithm | size | CPU s for one more | |", "|---|---|---|---|---|---|"]
    for row in _kept("one_more"):
        cost = "not done in time" if "failed" in row else f"{row['cpu_seconds']:.2g}"
        note = "begins anew" if row["anew"] else ""
        lines.append(f"| `{row['problem']}` | {row['t']:,} | {name_of(row)} | {_size(row)} | {cost} | {note} |")
    return "\n".join(lines)


def evidence() -> str:
    """Return the errors of log evidence, in Markdown."""
    lines = ["| problem | algorithm | size | error, nats | sd of one run |", "|---|---|---|---|---|"]
    for row in _kept("evidence"):
        mark = " **wrong**" if row["suspicious"] else ""
        error = f"{row['error']:+.2f} ± {row['standard_error']:.2f}{mark}"
        lines.append(f"| `{row['problem']}` | {name_of(row)} | {_size(row)} | {error} | {row['one_run']:.2f} |")
    return "\n".join(lines)


def _kept(name: str) -> list[rows.Row]:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text())["rows"] if path.exists() else []


def _size(row: rows.Row) -> str:
    return " x ".join(f"{size:,}" for size in row["size"].values())


def _winner(pair: tuple[rows.Row, float] | None) -> str:
    if pair is None:
        return "none that was run"
    return f"{name_of(pair[0]).removeprefix('ours ')}, {_size(pair[0])}: {_number(pair[1])} s"


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
    for name in sys.argv[1:] or problems():
        print(f"\n{name}\n\n{table(name)}")
