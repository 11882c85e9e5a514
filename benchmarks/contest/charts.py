"""The contest's results as charts."""

from __future__ import annotations

import itertools
from typing import Any

from benchmarks.contest import rows
from benchmarks.contest.entry import OURS
from benchmarks.contest.one_more import STEPS
from benchmarks.contest.table import UNFINISHED, is_finished, note_of, or_nan, problems
from benchmarks.problems import HELD_OUT
from benchmarks.tables import rows_of

BLUE, ORANGE = "#0072b2", "#d55e00"
"""Of Okabe and Ito, which the color-blind can tell apart."""
LABEL_HEIGHT = 9.0
"""Points."""


def chart(axes: Any, bar: float) -> None:
    """Draw, for each problem, the CPU seconds that our cheapest size and the best rival need."""
    names = problems()[::-1]
    for place, problem in enumerate(names):
        found = {kind: rows.cheapest(problem, kind, bar) for kind in ("default", "rival")}
        costs = {kind: pair[1].cpu_seconds for kind, pair in found.items() if pair is not None}
        if len(costs) == 2:
            axes.plot(list(costs.values()), [place, place], color="0.85", lw=1.5, zorder=1)
        for kind, color, marker in (("default", BLUE, "o"), ("rival", ORANGE, "D")):
            if kind in costs:
                axes.plot(costs[kind], place, marker, color=color, ms=7)
        note = "not reached" if not costs else note_of(found["default"], found["rival"])
        if found["rival"] is None and not is_finished(problem, bar):
            note = UNFINISHED
        right = max(costs.values(), default=0.01)
        axes.annotate(note, (right, place), (9, 0), textcoords="offset points", va="center", fontsize=8)
    axes.plot([], [], "o", color=BLUE, label="ours, cheapest size")
    axes.plot([], [], "D", color=ORANGE, label="best of all others")
    labels = [f"{name.replace('_', ' ')}{' *' if name in HELD_OUT else ''}" for name in names]
    axes.set_yticks(range(len(names)), labels)
    axes.set(xscale="log", xlabel=f"CPU seconds for an error of {bar} sd", ylim=(-0.7, len(names) - 0.3))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    axes.margins(x=0.85)
    axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=2, fontsize=8, frameon=False)


def keeping_up(axes: Any, problem: str) -> None:
    """Draw the CPU seconds of one more observation against t: our node filter, and the best way of each other library.

    Ours is thick; dashed lines did not reach 0.25 sds.
    """
    lines: dict[str, dict[str, list[Any]]] = {}
    for row in rows_of("one_more"):
        is_shown = row["library"] != OURS or row["algorithm"] == STEPS
        if row["problem"] == problem and "cpu_seconds" in row and is_shown:
            lines.setdefault(row["library"], {}).setdefault(row["algorithm"], []).append(row)
    others = itertools.cycle((ORANGE, "#009e73", "#cc79a7", "#e69f00", "#000000"))
    ends = []
    for library, ways in sorted(lines.items()):
        algorithm, points = min(ways.items(), key=lambda way: (-len(way[1]), way[1][-1]["cpu_seconds"]))
        times, costs = zip(*sorted((row["t"], row["cpu_seconds"]) for row in points), strict=True)
        reaches, is_ours = or_nan(points[0].get("reached")) <= rows.BARS[0], library == OURS
        look = {"color": BLUE if is_ours else next(others), "ls": "-" if reaches else "--"}
        axes.plot(times, costs, marker="o", ms=4, lw=3 if is_ours else 1.2, mfc=None if reaches else "white", **look)
        ends.append(
            (costs[-1], times[-1], "our node filter" if is_ours else f"{library} {algorithm.replace('_', ' ')}")
        )
    axes.set(xscale="log", yscale="log", xlabel="observations so far", ylabel="CPU s for one more", title=problem)
    axes.set_xlim(right=4e6)
    labelled(axes, sorted(ends))


def labelled(axes: Any, ends: list[tuple[float, float, str]]) -> None:
    """Write names beside the ends of lines, from the lowest to the highest, none over another."""
    height, lowest = axes.get_position().height * axes.figure.get_figheight() * 72, float("-inf")
    for cost, time, name in ends:
        place = axes.transAxes.inverted().transform(axes.transData.transform((time, cost)))[1] * height
        lowest = max(place, lowest + LABEL_HEIGHT)
        axes.annotate(name, (time, cost), (6, lowest - place), textcoords="offset points", va="center", fontsize=7)


def keeping_up_figure(plt: Any) -> Any:
    """Return a figure with a panel for each problem."""
    names = list(dict.fromkeys(row["problem"] for row in rows_of("one_more")))
    num_rows = max(1, -(-len(names) // 2))
    figure, panels = plt.subplots(num_rows, 2, figsize=(9, 3.4 * num_rows), squeeze=False, layout="constrained")
    for name, axes in zip(names, panels.ravel(), strict=False):
        keeping_up(axes, name)
    for axes in panels.ravel()[len(names) :]:
        axes.remove()
    return figure
