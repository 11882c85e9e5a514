"""The contest's results as tables and pictures: `python -m benchmarks.contest.table [problem ...]` prints them."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

from benchmarks.contest import rows
from benchmarks.problems import CONTEST
from benchmarks.tables import RESULTS

HEADER = (
    "| algorithm | size | error of the mean | of log sd | coverage of 90 % | CPU s | first run | MB |",
    "|---|---|---|---|---|---|---|---|",
)

BLUE, GREY = "#0072b2", "#999999"
COLOURS = {
    "extended_parameter": BLUE,
    "node": BLUE,
    "liu_west": "#e69f00",
    "liu_west_blind": "#e69f00",
    "sir": "#d55e00",
    "nested": "#56b4e9",
    "smc2": "#009e73",
    "pmmh": "#cc79a7",
    "pmcmc": "#cc79a7",
    "storvik": "#000000",
}
"""Of Okabe and Ito, which the colour-blind can tell apart; the rest is grey."""
MARKERS = {"node": "s", "paper": "v", "assumed": "^", "liu_west_blind": "x", "if2": "x"}
STYLES = {"ours": "-", "particles": "--", "smcx": ":", "pypomp": "-.", "smcs": (0, (6, 1))}


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

    The last column is the rival's cost over that of our default; without a rival, that of the dearest rung that a
    rival has tried.
    """
    lines = [
        "| problem | our default | our other presets | best baseline | baseline / our default |",
        "|---|---|---|---|---|",
    ]
    for problem in problems():
        default, presets, rival = (rows.cheapest(problem, kind) for kind in ("default", "preset", "rival"))
        own = default[1] if default else np.nan
        ratio = _number(rival[1] / own) if rival else _at_least(dearest_rival(problem) / own)
        lines.append(f"| `{problem}` | {_winner(default)} | {_winner(presets)} | {_winner(rival)} | {ratio} |")
    return "\n".join(lines)


def _at_least(ratio: float) -> str:
    return f"> {_number(ratio)}" if ratio > 1 else "–"


def chart(axes: Any) -> None:
    """Draw, for each problem, the CPU seconds that our default and the best baseline need for 0.25 sds."""
    names = problems()[::-1]
    for place, problem in enumerate(names):
        default, rival = rows.cheapest(problem, "default"), rows.cheapest(problem, "rival")
        own = default[1] if default else np.nan
        other = rival[1] if rival else dearest_rival(problem)
        axes.plot([own, other], [place, place], color="0.85", lw=1.5, zorder=1)
        axes.plot(own, place, "o", color=BLUE, ms=7)
        axes.plot(other, place, "o" if rival else ">", color=COLOURS["sir"], ms=7, mfc=None if rival else "white")
        note = f"{_number(other / own)}×, {rival[0]['algorithm']}" if rival else f"> {_number(other / own)}×"
        axes.annotate(note, (max(own, other), place), (9, 0), textcoords="offset points", va="center", fontsize=8)
    axes.plot([], [], "o", color=BLUE, label="our default")
    axes.plot([], [], "o", color=COLOURS["sir"], label="best baseline")
    axes.plot([], [], ">", color=COLOURS["sir"], mfc="white", label="no baseline reached it: most that was tried")
    axes.set_yticks(range(len(names)), [name.replace("_", " ") for name in names])
    axes.set(xscale="log", xlabel="CPU seconds for the whole stream")
    axes.margins(x=0.16)
    axes.legend(loc="lower center", bbox_to_anchor=(0.45, 1.0), ncols=3, fontsize=8, frameon=False)


def all_rows() -> tuple[list[str], list[list[object]]]:
    """Return every run of every problem as a table: its header and its lines."""
    header = ["problem", "library", "algorithm", "kind", "size", "error at T/10", "at 3T/10", "at T", "error of log sd"]
    header += ["coverage of 90 %", "CPU seconds", "CPU seconds, first run", "peak MB", "runs"]
    lines = []
    for problem in problems():
        for row, verdict in rows.judged(problem):
            kind = rows.kind_of(problem, row["library"], row["algorithm"]).replace("rival", "baseline")
            place = [problem, row["library"], row["algorithm"], kind, _size(row), *map(_number, verdict.error)]
            judged = (verdict.log_sd_error[-1], verdict.cover[-1], verdict.cpu_seconds)
            first = row["runs"][0]["cpu_seconds_first"]
            lines.append([*place, *map(_number, judged), _number(first), round(verdict.peak_mb), verdict.num_runs])
    return header, lines


def legend(figure: Any) -> None:
    """Explain the lines of all panels once, below them."""
    lines = {}
    for axes in figure.axes:
        lines |= {label: line for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    labels = sorted(lines, key=lambda label: (not label.startswith("ours"), label))
    figure.legend([lines[label] for label in labels], labels, loc="outside lower center", ncols=4, fontsize=8)


def dearest_rival(problem: str) -> float:
    """Return the CPU seconds of the dearest rung that a rival has tried; NaN if none has."""
    tried = [
        verdict.cpu_seconds
        for row, verdict in rows.judged(problem)
        if rows.kind_of(problem, row["library"], row["algorithm"]) == "rival"
    ]
    return max(tried, default=np.nan)


def one_more() -> str:
    """Return what one more observation costs, in Markdown."""
    lines = [
        "| problem | t | algorithm | size | CPU s for one more | mean, t/2 to t |",
        "|---|---|---|---|---|---|",
    ]
    for row in _kept("one_more"):
        cost = "over half an hour" if "failed" in row else f"{row['cpu_seconds']:.2g}"
        average = "complete rerun" if row["anew"] else _number(row.get("cpu_seconds_on_average", np.nan))
        lines.append(f"| `{row['problem']}` | {row['t']:,} | {name_of(row)} | {_size(row)} | {cost} | {average} |")
    return "\n".join(lines)


def evidence() -> str:
    """Return the errors of log evidence, in Markdown."""
    lines = ["| problem | algorithm | size | error, nats | sd of one run |", "|---|---|---|---|---|"]
    for row in _kept("evidence"):
        mark = " **biased**" if row["suspicious"] else ""
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
        return "not reached"
    return f"{name_of(pair[0]).removeprefix('ours ')}, {_size(pair[0])}: {_number(pair[1])} s"


def picture(problem: str, axes: Any) -> None:
    """Draw error against CPU seconds, a line for each ladder; our default is the thick one."""
    ladders: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row, verdict in rows.judged(problem):
        place = (row["library"], row["algorithm"])
        ladders.setdefault(place, []).append((verdict.cpu_seconds, float(verdict.error[-1])))
    for (library, algorithm), points in ladders.items():
        is_default = rows.kind_of(problem, library, algorithm) == "default"
        axes.plot(
            *zip(*sorted(points), strict=True),
            label=f"{library} {algorithm}",
            color=COLOURS.get(algorithm, GREY),
            marker=MARKERS.get(algorithm, "o"),
            ls=STYLES[library],
            ms=8 if is_default else 4,
            lw=3 if is_default else 1,
            zorder=3 if is_default else 2,
        )
    axes.axhline(rows.GOOD_ENOUGH, color="0.5", lw=0.8, zorder=1)
    axes.set(xscale="log", yscale="log", title=problem, xlabel="CPU seconds for the stream", ylabel="error, sds")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter("")


if __name__ == "__main__":
    print(headline())
    for name in sys.argv[1:] or problems():
        print(f"\n{name}\n\n{table(name)}")
