"""The contest's results as tables and charts: `python -m benchmarks.contest table` prints the first of them."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np

from benchmarks.contest import rows
from benchmarks.contest.entry import OURS, Ladder, entries
from benchmarks.contest.run import BUDGET, goes_on
from benchmarks.problems import CONTEST, HELD_OUT
from benchmarks.tables import RESULTS

BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#999999"
"""Of Okabe and Ito, which the color-blind can tell apart."""
NOT_RUN = "not run"
TOO_SLOW = "no answer within the budget"
UNFINISHED = "others not finished"


def problems() -> list[str]:
    """Return the problems of which some row was judged at the end."""
    return [name for name in CONTEST if any(np.isfinite(verdict.error[-1]) for _, verdict in rows.judged(name))]


def summary() -> str:
    """Say in a paragraph how our default did, who was cheaper, and what is missing."""
    bar = rows.BARS[0]
    tenth, less, num = num_wins(bar)
    cheaper = []
    for problem in problems():
        default, rival = (rows.cheapest(problem, kind, bar) for kind in ("default", "rival"))
        if rival is not None and (default is None or rival[1].cpu_seconds < default[1].cpu_seconds):
            cheaper.append(f"`{problem}` ({_note(default, rival)})")
    first = f"**Our default needed the least CPU time for an error of {bar} posterior sd on {less} of {num} problems, "
    first += f"and less than a tenth of any other algorithm's on {tenth}.**"
    second = (
        f" Another algorithm was cheaper on {', '.join(cheaper)}; the factor is its cost over ours." if cheaper else ""
    )
    absent = [name for name in CONTEST if name not in problems()]
    missing = _missing()
    third = f" Not run yet: {', '.join(f'`{name}`' for name in absent)}." if absent else ""
    third += f" {missing} of all cells have not been run; they say so in the tables." if missing else ""
    return first + second + third


def _missing() -> str:
    """Return which share of the cells was not run."""
    found = [cell for line in cells(rows.BARS[0])[1] for cell in line[1:]]
    num_missing = found.count(NOT_RUN)
    return f"{num_missing / len(found):.0%}" if num_missing else ""


def report() -> str:
    """Return the headline for both bars."""
    return "\n\n".join(f"{bar} sds\n\n{headline(bar)}" for bar in rows.BARS)


def headline(bar: float) -> str:
    """Return, for each problem, what a bar cost our default and the best rival, without and with compiling."""
    lines = [
        "| problem | our default | best other | other / ours | with compiling |",
        "|---|---|---|---|---|",
    ]
    for problem in problems():
        default, rival = (rows.cheapest(problem, kind, bar) for kind in ("default", "rival"))
        mark = " (held out)" if problem in HELD_OUT else ""
        ratios = (UNFINISHED, "") if rival is None and not is_finished(problem, bar) else _ratios(default, rival)
        cells = (f"`{problem}`{mark}", _winner(default), _winner(rival), *ratios)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _ratios(default: tuple | None, rival: tuple | None) -> tuple[str, str]:
    if default is None:
        return ("not reached by us", "") if rival else ("reached by none", "")
    if rival is None:
        return "no other within the budget", ""
    ours, theirs = default[1], rival[1]
    return (
        _number(theirs.cpu_seconds / ours.cpu_seconds),
        _number(theirs.cpu_seconds_first / ours.cpu_seconds_first),
    )


def is_finished(problem: str, bar: float) -> bool:
    """Tell whether all other libraries have been run as far as the protocol wants, without a failure."""
    ladders = [ladder for name, one in entries().items() if name != OURS for ladder in one.ladders]
    return all(_has_ended(problem, ladder, bar) for ladder in ladders if ladder.takes(problem))


def _has_ended(problem: str, ladder: Ladder, bar: float) -> bool:
    own, failed = _run(problem, ladder)
    if not own or failed:
        return not failed and _is_too_slow(problem, ladder)
    return len(own) == len(ladder.rungs) or any(v.reaches(bar) for v in own) or not goes_on(own, BUDGET)


def num_wins(bar: float) -> tuple[int, int, int]:
    """Return on how many problems our default needs a tenth of the best rival's CPU, less than it, and of how many."""
    tenth = less = 0
    for problem in problems():
        default, rival = (rows.cheapest(problem, kind, bar) for kind in ("default", "rival"))
        if rival is None:
            ratio = np.inf if is_finished(problem, bar) else np.nan
        else:
            ratio = rival[1].cpu_seconds / default[1].cpu_seconds if default else 0.0
        tenth += default is not None and ratio >= rows.WIN
        less += default is not None and ratio > 1
    return tenth, less, len(problems())


def chart(axes: Any, bar: float) -> None:
    """Draw, for each problem, the CPU seconds that our default and the best rival need."""
    names = problems()[::-1]
    for place, problem in enumerate(names):
        found = {kind: rows.cheapest(problem, kind, bar) for kind in ("default", "rival")}
        costs = {kind: pair[1].cpu_seconds for kind, pair in found.items() if pair is not None}
        if len(costs) == 2:
            axes.plot(list(costs.values()), [place, place], color="0.85", lw=1.5, zorder=1)
        for kind, color, marker in (("default", BLUE, "o"), ("rival", ORANGE, "D")):
            if kind in costs:
                axes.plot(costs[kind], place, marker, color=color, ms=7)
        note = "nobody" if not costs else _note(found["default"], found["rival"])
        if found["rival"] is None and not is_finished(problem, bar):
            note = UNFINISHED
        right = max(costs.values(), default=0.01)
        axes.annotate(note, (right, place), (9, 0), textcoords="offset points", va="center", fontsize=8)
    axes.plot([], [], "o", color=BLUE, label="our default")
    axes.plot([], [], "D", color=ORANGE, label="best of all others")
    labels = [f"{name.replace('_', ' ')}{' *' if name in HELD_OUT else ''}" for name in names]
    axes.set_yticks(range(len(names)), labels)
    axes.set(xscale="log", xlabel=f"CPU seconds for an error of {bar} sd", ylim=(-0.7, len(names) - 0.3))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    axes.margins(x=0.4)
    axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=2, fontsize=8, frameon=False)


def _note(default: tuple | None, rival: tuple | None) -> str:
    if rival is None:
        return "no other reached it"
    name = f"{rival[0]['library']} {rival[0]['algorithm']}".removeprefix("ours ")
    if default is None:
        return f"{name}; not ours"
    ratio = rival[1].cpu_seconds / default[1].cpu_seconds
    return f"{name}, {_number(ratio)}×"


def cells(bar: float) -> tuple[list[str], list[list[str]]]:
    """Return a table of all algorithms and all problems: CPU seconds for a bar, or why there are none."""
    ladders = [ladder for entry in entries().values() for ladder in entry.ladders]
    lines = []
    for ladder in ladders:
        line = [f"{ladder.library} {ladder.algorithm}"]
        for problem in problems():
            line.append(_cell(problem, ladder, bar))
        lines.append(line)
    return ["algorithm", *problems()], lines


def _cell(problem: str, ladder: Ladder, bar: float) -> str:
    if not ladder.takes(problem):
        return ladder.reason
    own, failed = _run(problem, ladder)
    reached = [verdict.cpu_seconds for verdict in own if verdict.reaches(bar)]
    if reached:
        return _number(min(reached))
    if own:
        best = min(own, key=lambda verdict: verdict.error[-1])
        return f"error {_number(best.error[-1])} after {_number(best.cpu_seconds)} s"
    if failed:
        return f"failed: {failed[0][:80]}"
    return TOO_SLOW if _is_too_slow(problem, ladder) else NOT_RUN


def _is_too_slow(problem: str, ladder: Ladder) -> bool:
    """Tell whether the first rung was given up before it had an answer."""
    row = rows.find(rows.load(problem), ladder.library, ladder.algorithm, ladder.rungs[0])
    return row is not None and not row["runs"] and row.get("over_budget", False)


def _run(problem: str, ladder: Ladder) -> tuple[list[rows.Verdict], list[str]]:
    """Return the verdicts of a ladder's rungs, and how those that failed did so, in their last line."""
    same = lambda row: (row["library"], row["algorithm"]) == (ladder.library, ladder.algorithm)
    failed = [row["failed"].strip().splitlines() or ["ended"] for row in rows.failures(problem) if same(row)]
    return rows.climbed(problem, ladder), [lines[-1] for lines in failed]


def standing(name: str) -> str:
    """Return how an entry did: its cell of each problem beside the best of all."""
    lines = [f"| problem | {name} | CPU s for 0.25 | cheapest of all |", "|---|---|---|---|"]
    for ladder in entries()[name].ladders:
        for problem in problems():
            found = [rows.cheapest(problem, kind, rows.BARS[0]) for kind in ("default", "preset", "rival")]
            reached = [pair for pair in found if pair is not None]
            best = _winner(min(reached, key=lambda pair: pair[1].cpu_seconds, default=None))
            lines.append(f"| {problem} | {ladder.algorithm} | {_cell(problem, ladder, rows.BARS[0])} | {best} |")
    return "\n".join(lines)


def all_rows() -> tuple[list[str], list[list[object]]]:
    """Return every rung of every problem as a table: its header and its lines."""
    header = ["problem", "library", "algorithm", "kind", "size", "error at T/10", "at 3T/10", "at T", "5 %", "95 %"]
    header += ["error of log sd", "coverage of 90 %", "CPU seconds", "CPU seconds, first run", "peak MB", "runs"]
    lines = []
    for problem in problems():
        for row, verdict in rows.judged(problem):
            kind = rows.kind_of(problem, row["library"], row["algorithm"]).replace("rival", "other")
            place = [problem, row["library"], row["algorithm"], kind, _size(row)]
            judged = (*verdict.error, *verdict.interval, verdict.log_sd_error[-1], verdict.cover[-1])
            times = (verdict.cpu_seconds, verdict.cpu_seconds_first)
            lines.append([*place, *map(_number, judged + times), round(verdict.peak_mb), verdict.num_runs])
        for row in rows.failures(problem):
            reason = " ".join(row["failed"].split())[-120:]
            lines.append([problem, row["library"], row["algorithm"], "failed", _size(row), reason])
    return header, lines


def keeping_up(axes: Any, problem: str) -> None:
    """Draw the CPU seconds of one more observation against t; ours are thick, and dashed did not reach 0.25 sds."""
    lines: dict[tuple[str, bool], list[tuple[int, float]]] = {}
    for row in _kept("one_more"):
        if row["problem"] == problem and "cpu_seconds" in row:
            name, reaches = f"{row['library']} {row['algorithm']}", _or_nan(row.get("reached")) <= rows.BARS[0]
            lines.setdefault((name, reaches), []).append((row["t"], row["cpu_seconds"]))
    others = itertools.cycle((ORANGE, "#009e73", "#cc79a7", "#e69f00", "#000000"))
    for (name, reaches), points in sorted(lines.items()):
        is_ours = name.startswith(("ours node", "ours extended"))
        times, costs = zip(*sorted(points), strict=True)
        look = {"color": BLUE if is_ours else next(others), "ls": "-" if reaches else "--"}
        axes.plot(times, costs, marker="o", ms=4, lw=3 if is_ours else 1.2, mfc=None if reaches else "white", **look)
        axes.annotate(name, (times[-1], costs[-1]), (6, 0), textcoords="offset points", va="center", fontsize=7)
    axes.set(xscale="log", yscale="log", xlabel="observations so far", ylabel="CPU s for one more", title=problem)
    axes.set_xlim(right=1e6)


def keeping_up_figure(plt: Any) -> Any:
    """Return a figure with a panel for each problem."""
    names = list(dict.fromkeys(row["problem"] for row in _kept("one_more")))
    num_rows = max(1, -(-len(names) // 2))
    figure, panels = plt.subplots(num_rows, 2, figsize=(9, 3.4 * num_rows), squeeze=False, layout="constrained")
    for name, axes in zip(names, panels.ravel(), strict=False):
        keeping_up(axes, name)
    for axes in panels.ravel()[len(names) :]:
        axes.remove()
    return figure


def one_more() -> tuple[list[str], list[list[object]]]:
    """Return what one more observation costs."""
    header = ["problem", "t", "algorithm", "size", "error", "CPU seconds for one more", "how"]
    lines = [
        [row["problem"], row["t"], name_of(row), _size(row), _number(_or_nan(row.get("reached"))),
         f"{row['cpu_seconds']:.2g}" if "cpu_seconds" in row else row["failed"], row.get("how", "")]
        for row in _kept("one_more")
    ]  # fmt: skip
    return header, lines


def evidence() -> tuple[list[str], list[list[object]]]:
    """Return the errors of log evidence."""
    header = ["problem", "algorithm", "size", "error, nats", "standard error", "sd of one run", "biased"]
    lines = [
        [row["problem"], name_of(row), _size(row), f"{row['error']:+.2f}", f"{row['standard_error']:.2f}",
         f"{row['one_run']:.2f}", row["suspicious"]]
        for row in _kept("evidence")
    ]  # fmt: skip
    return header, lines


def picture(problem: str, axes: Any) -> None:
    """Draw error against CPU seconds, a line for each ladder: our default thick, ours in blue, others by their best."""
    ladders: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row, verdict in rows.judged(problem):
        place = (row["library"], row["algorithm"])
        ladders.setdefault(place, []).append((verdict.cpu_seconds, float(verdict.error[-1])))
    for (library, algorithm), points in ladders.items():
        kind = rows.kind_of(problem, library, algorithm)
        is_default = kind == "default"
        times, errors = zip(*sorted(points), strict=True)
        color = BLUE if kind != "rival" else GREY if library == "ours" else ORANGE
        width, size = (2.5, 6) if is_default else (0.8, 3)
        axes.plot(times, errors, color=color, marker="o", ms=size, lw=width, zorder=3 if is_default else 2)
    for bar in rows.BARS:
        axes.axhline(bar, color="0.5", lw=0.8, zorder=1)
    mark = " *" if problem in HELD_OUT else ""
    axes.set(xscale="log", yscale="log", title=f"{problem}{mark}", xlabel="CPU seconds", ylabel="error, sd")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter("")


def name_of(row: rows.Row) -> str:
    """Name an algorithm."""
    return f"{row['library']} `{row['algorithm']}`"


def _kept(name: str) -> list[rows.Row]:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text())["rows"] if path.exists() else []


def _size(row: rows.Row) -> str:
    return " x ".join(f"{size:,}" for size in row["size"].values())


def _or_nan(value: float | str | None) -> float:
    return np.nan if value is None else float(value)  # NaN is kept as a text


def _number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.2g}" if abs(value) < 10 else f"{value:.0f}"


def _winner(pair: tuple[rows.Row, rows.Verdict] | None) -> str:
    if pair is None:
        return "not reached"
    row, verdict = pair
    size = f", {_size(row)}" if row["size"] else ""
    low, high = verdict.interval
    error = f"error {_number(verdict.error[-1])} ({_number(low)} to {_number(high)})"
    return f"{name_of(row).removeprefix('ours ')}{size}: {_number(verdict.cpu_seconds)} s, {error}"
