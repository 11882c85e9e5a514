"""The contest's results as tables: `python -m benchmarks.contest table` prints the first of them."""

from __future__ import annotations

from collections import Counter

import numpy as np

from benchmarks.contest import rows
from benchmarks.contest.entry import OURS, Ladder, entries
from benchmarks.contest.run import BUDGET, goes_on
from benchmarks.problems import CONTEST, HELD_OUT
from benchmarks.tables import rows_of

NOT_RUN = "not run"
TOO_SLOW = "no answer within the budget"
UNFINISHED = "others not finished"


def problems() -> list[str]:
    """Return the problems on which our default was run and judged at the end."""
    is_ours = lambda name, row: rows.kind_of(name, row["library"], row["algorithm"]) == "default"
    return [
        name
        for name in CONTEST
        if any(is_ours(name, row) and np.isfinite(verdict.error[-1]) for row, verdict in rows.judged(name))
    ]


def report() -> str:
    """Return the headline for both bars."""
    return "\n\n".join(f"{bar} sds\n\n{headline(bar)}" for bar in rows.BARS)


def headline(bar: float) -> str:
    """Return, for each problem, what a bar cost us and the best rival, without and with compiling."""
    lines = [
        "| problem | ours, cheapest size | best other | other / ours | with compiling |",
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
        number(theirs.cpu_seconds / ours.cpu_seconds),
        number(theirs.cpu_seconds_first / ours.cpu_seconds_first),
    )


def is_finished(problem: str, bar: float) -> bool:
    """Tell whether all other libraries have been run as far as the protocol wants, without a failure."""
    ladders = [ladder for name, one in entries().items() if name != OURS for ladder in one.ladders]
    return all(_has_ended(problem, ladder, bar) for ladder in ladders if ladder.takes(problem))


def _has_ended(problem: str, ladder: Ladder, bar: float) -> bool:
    own, failed = _run(problem, ladder)
    if not own or failed:
        return not failed and _is_too_slow(problem, ladder)
    return (
        len(own) == len(ladder.rungs)
        or any(v.reaches(bar) for v in own)
        or not goes_on(own, ladder.step_after(len(own) - 1), BUDGET)
    )


def leads(bar: float, cost: str = "cpu_seconds", algorithm: str | None = None) -> list[float]:
    """Return how many times our cost the best rival needs, for each problem.

    0 where we do not reach the bar, infinity where no rival does, NaN where that is not known yet.

    Args:
        bar: An error in sds.
        cost: What of a verdict counts.
        algorithm: `auto` for our default size; the cheapest of all sizes unless given.
    """
    found = []
    for problem in problems():
        own = rows.cheapest(problem, "default", bar, cost, algorithm)
        rival = rows.cheapest(problem, "rival", bar, cost)
        if own is None:
            found.append(0.0)
        elif rival is None:
            found.append(np.inf if is_finished(problem, bar) else np.nan)
        else:
            found.append(getattr(rival[1], cost) / getattr(own[1], cost))
    return found


def note_of(default: tuple | None, rival: tuple | None) -> str:
    if rival is None:
        return "no other reached it"
    name = f"{rival[0]['library']} {rival[0]['algorithm']}".removeprefix("ours ")
    if default is None:
        return f"{name}; not ours"
    ratio = rival[1].cpu_seconds / default[1].cpu_seconds
    return f"{name}, {number(ratio)}×"


def cells(bar: float) -> tuple[list[str], list[list[str]]]:
    """Return a table of all algorithms and all problems: CPU seconds for a bar, or why there are none."""
    ladders = [ladder for entry in entries().values() for ladder in entry.ladders]
    names = problems()
    lines = [
        [f"{ladder.library} {ladder.algorithm}", *(_cell(name, ladder, bar) for name in names)] for ladder in ladders
    ]
    return ["algorithm", *names], lines


def _cell(problem: str, ladder: Ladder, bar: float) -> str:
    if not ladder.takes(problem):
        return ladder.reason
    own, failed = _run(problem, ladder)
    reached = [verdict.cpu_seconds for verdict in own if verdict.reaches(bar)]
    if reached:
        return number(min(reached))
    if own:
        best = min(own, key=lambda verdict: verdict.error[-1])
        return f"error {number(best.error[-1])} after {number(best.cpu_seconds)} s"
    if failed:
        return f"failed: {failed[0][:80]}"
    return TOO_SLOW if _is_too_slow(problem, ladder) else NOT_RUN


def _is_too_slow(problem: str, ladder: Ladder) -> bool:
    """Tell whether the first rung was given up before it had an answer."""
    row = rows.find(rows.load(problem), ladder.library, ladder.algorithm, ladder.rungs[0])
    return row is not None and not row["runs"] and row.get("over_budget", False)


def _run(problem: str, ladder: Ladder) -> tuple[list[rows.Verdict], list[str]]:
    """Return the verdicts of a ladder's rungs, and how those that failed did so, in their last line."""
    failed = [
        row["failed"].strip().splitlines() or ["ended"] for row in rows.failures(problem) if rows.is_of(row, ladder)
    ]
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


def num_elsewhere() -> int:
    """Return how many rows were measured on another machine than most."""
    machines = Counter(row.get("machine") for name in problems() for row, _ in rows.judged(name))
    return machines.total() - max(machines.values())


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
            lines.append([*place, *map(number, judged + times), round(verdict.peak_mb), verdict.num_runs])
        for row in rows.failures(problem):
            reason = " ".join(row["failed"].split())[-120:]
            lines.append([problem, row["library"], row["algorithm"], "failed", _size(row), reason])
    return header, lines


def defaults(names: list[str]) -> tuple[list[str], list[list[object]]]:
    """Return how our default, at its own size, did on some problems."""
    header = ["problem", "error at T, sd", "sd / reference", "90 % interval holds", "CPU seconds"]
    lines = []
    for problem in names:
        row = rows.find(rows.load(problem), OURS, "auto", {})
        if row is None or not row["runs"]:
            lines.append([f"`{problem}`", TOO_SLOW if row else NOT_RUN, "", "", ""])
            continue
        found = rows.judge(problem, row)
        low, high = map(number, found.interval)
        error = f"{number(found.error[-1])} ({low} to {high})"
        apart = f"within {np.expm1(found.log_sd_error[-1]):.1%}"
        cover = f"{found.cover[-1]:.1%}"
        lines.append([f"`{problem}`", error, apart, cover, number(found.cpu_seconds)])
    return header, lines


def one_more() -> tuple[list[str], list[list[object]]]:
    """Return what one more observation costs."""
    header = ["problem", "t", "algorithm", "size", "error", "CPU seconds for one more", "how", "sds from our default"]
    lines = [
        [row["problem"], row["t"], name_of(row), _size(row), number(or_nan(row.get("reached"))),
         f"{row['cpu_seconds']:.2g}" if "cpu_seconds" in row else row["failed"], row.get("how", ""),
         number(or_nan(row.get("apart")))]
        for row in rows_of("one_more")
    ]  # fmt: skip
    return header, lines


def sizes() -> tuple[list[str], list[list[object]]]:
    """Return the sizes at which each algorithm is run."""
    header = ["library", "algorithm", "sizes", "one fit for each answer"]
    lines = []
    for entry in entries().values():
        for ladder in entry.ladders:
            rungs = ", ".join(" × ".join(map(str, rung.values())) for rung in ladder.rungs if rung) or "one"
            names = " × ".join(name.removeprefix("num_") for name in ladder.rungs[0])
            lines.append(
                [entry.name, f"`{ladder.algorithm}`", f"{rungs} {names}".strip(), "yes" if ladder.refits else ""]
            )
    return header, lines


def name_of(row: rows.Row) -> str:
    """Name an algorithm."""
    return f"{row['library']} `{row['algorithm']}`"


def _size(row: rows.Row) -> str:
    return " x ".join(f"{size:,}" for size in row["size"].values())


def or_nan(value: float | str | None) -> float:
    return np.nan if value is None else float(value)  # NaN is kept as a text


def number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.2g}" if abs(value) < 10 else f"{value:.0f}"


def _winner(pair: tuple[rows.Row, rows.Verdict] | None) -> str:
    if pair is None:
        return "not reached"
    row, verdict = pair
    size = f", {_size(row)}" if row["size"] else ""
    low, high = verdict.interval
    error = f"error {number(verdict.error[-1])} ({number(low)} to {number(high)})"
    return f"{name_of(row).removeprefix('ours ')}{size}: {number(verdict.cpu_seconds)} s, {error}"
