"""What the contest's results say, in sentences that pages show."""

from __future__ import annotations

import numpy as np

from benchmarks.contest import rows
from benchmarks.contest.entry import OURS
from benchmarks.contest.one_more import MOST_APART, MOST_SECONDS, REFITS, STEPS, WARM
from benchmarks.contest.table import NOT_RUN, cells, leads, note_of, number, problems
from benchmarks.problems import CONTEST
from benchmarks.tables import rows_of

REFITTING = (REFITS, WARM)
"""Ways of `one_more` that begin again for each observation."""


def summary() -> str:
    """Say in a paragraph how we did, who was cheaper, and what is missing."""
    bar, num = rows.BARS[0], len(problems())
    ratios, at_default = (np.array(leads(bar, algorithm=size)) for size in (None, "auto"))
    cheaper = []
    for problem in problems():
        own, rival = (rows.cheapest(problem, kind, bar) for kind in ("default", "rival"))
        if rival is not None and (own is None or rival[1].cpu_seconds < own[1].cpu_seconds):
            cheaper.append(f"`{problem}` ({note_of(own, rival)})")
    least, close = np.sum(ratios > 1), np.sum((ratios > 1) & (ratios < rows.CLOSE))
    first_runs = np.array(leads(bar, "cpu_seconds_first"))
    text = (
        "**The algorithm that `auto_filter` selects, at the cheapest of its sizes, needed the least CPU time for an "
        f"error of {bar} posterior sd on {least} of {num} problems, and less than a tenth of any other algorithm's on "
        f"{np.sum(ratios >= rows.WIN)}; the goal was {rows.GOAL}.**"
        f" On {close} of the {least} the lead is below {rows.CLOSE}, which another machine may turn."
        f" At its default size, which aims at 0.02 sd, it needed the least on {np.sum(at_default > 1)}."
        f" With compilation, the cheapest size needed the least on {np.sum(first_runs > 1)}."
    )
    if cheaper:
        text += f" Another algorithm was cheaper on {', '.join(cheaper)}; the factor is its cost over ours."
    absent = [name for name in CONTEST if name not in problems()]
    missing = _missing()
    text += f" Not run yet: {', '.join(f'`{name}`' for name in absent)}." if absent else ""
    text += f" {missing} of all cells have not been run; they say so in the tables." if missing else ""
    return text


def _missing() -> str:
    """Return which share of the cells was not run."""
    found = [cell for line in cells(rows.BARS[0])[1] for cell in line[1:]]
    num_missing = found.count(NOT_RUN)
    return f"{num_missing / len(found):.0%}" if num_missing else ""


def keeping_up_summary() -> str:
    """Say how much more than our node filter the cheapest refit needs for one more observation at the end."""
    last = max((row["t"] for row in rows_of("one_more")), default=0)
    parts = []
    for problem in dict.fromkeys(row["problem"] for row in rows_of("one_more")):
        found = [row for row in rows_of("one_more") if (row["problem"], row["t"]) == (problem, last)]
        own = [row["cpu_seconds"] for row in found if row["algorithm"] == STEPS]
        refits = [row for row in found if row["how"] in REFITTING]
        done = [row for row in refits if "cpu_seconds" in row and row["apart"] <= MOST_APART]
        if own and done:
            best = min(done, key=lambda row: row["cpu_seconds"])
            ratio = number(best["cpu_seconds"] / own[0])
            parts.append(f"`{problem}`: {ratio} times ({best['library']} `{best['algorithm']}`)")
        elif own and refits:
            parts.append(f"`{problem}`: no refit that was run was both in time and right")
    return (
        f"After {last:,} observations, the cheapest refit whose size reached 0.25 sd needs this many times our CPU "
        f"time for one more: {'; '.join(parts)}. Our node filter takes one observation at a time here, and its "
        f"posterior is read after each. A refit counts if its means are within {MOST_APART} sd of our default size's, "
        f"and if it and the first fit, which is not counted, took at most {MOST_SECONDS:.0f} seconds."
    )


def one_fit() -> str:
    """Say on how many problems one fit by NUTS was cheaper than we on the whole stream."""
    bar, fits = rows.BARS[0], {}
    for problem in problems():
        costs = [
            verdict.cpu_seconds
            for row, verdict in rows.judged(problem)
            if row["algorithm"].startswith("nuts") and verdict.reaches(bar)
        ]
        if costs:
            fits[problem] = min(costs)

    def num_cheaper(algorithm: str | None) -> int:
        own = {problem: rows.cheapest(problem, "default", bar, algorithm=algorithm) for problem in fits}
        return sum(pair is None or fits[problem] < pair[1].cpu_seconds for problem, pair in own.items())

    return (
        f"On the {len(fits)} problems where NUTS reached {bar} posterior sd, one fit took less CPU time than "
        f"`auto_filter` on the whole stream on {num_cheaper('auto')}, and less than the cheapest size of the same "
        f"algorithm on {num_cheaper(None)} ([Algorithms compared](contest.md))."
    )


def light() -> str:
    """Say what the first size of our node filter saves against the default size, and how far off it is."""
    ratios, errors = [], {}
    for problem in problems():
        found = {row["algorithm"]: verdict for row, verdict in rows.judged(problem)[::-1] if row["library"] == OURS}
        if {"auto", "node"} <= set(found):
            ratios.append(found["auto"].cpu_seconds / found["node"].cpu_seconds)
            errors[problem] = float(found["node"].error[-1])
    return (
        f"On the {len(ratios)} problems of the benchmark it takes {number(min(ratios))} to {number(max(ratios))} times "
        f"less CPU time than the default. The rms error of the posterior means is "
        f"{number(float(np.median(list(errors.values()))))} posterior sd in the median. At worst it is "
        f"{number(max(errors.values()))}, on `{max(errors, key=errors.__getitem__)}`."
    )
