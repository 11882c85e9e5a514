"""What the contest's results say, in sentences that pages show."""

from __future__ import annotations

import numpy as np

from benchmarks.contest import rows
from benchmarks.contest.entry import OURS
from benchmarks.contest.one_more import MOST_SECONDS, REFITS, STEPS, WARM
from benchmarks.contest.table import NOT_RUN, cells, note_of, num_wins, number, problems
from benchmarks.problems import CONTEST
from benchmarks.tables import rows_of

REFITTING = (REFITS, WARM)
"""Ways of `one_more` that begin again for each observation."""


def summary() -> str:
    """Say in a paragraph how our default did, who was cheaper, and what is missing."""
    bar = rows.BARS[0]
    tenth, less, num = num_wins(bar)
    cheaper = []
    for problem in problems():
        default, rival = (rows.cheapest(problem, kind, bar) for kind in ("default", "rival"))
        if rival is not None and (default is None or rival[1].cpu_seconds < default[1].cpu_seconds):
            cheaper.append(f"`{problem}` ({note_of(default, rival)})")
    first = f"**Our default needed the least CPU time for an error of {bar} posterior sd on {less} of {num} problems, "
    first += f"and less than a tenth of any other algorithm's on {tenth}.**"
    first += f" With compilation, it needed the least on {num_wins(bar, 'cpu_seconds_first')[1]}."
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


def keeping_up_summary() -> str:
    """Say how much more than our default the cheapest refit needs for one more observation at the end."""
    last = max((row["t"] for row in rows_of("one_more")), default=0)
    parts = []
    for problem in dict.fromkeys(row["problem"] for row in rows_of("one_more")):
        found = [row for row in rows_of("one_more") if (row["problem"], row["t"]) == (problem, last)]
        own = [row["cpu_seconds"] for row in found if row["algorithm"] == STEPS]
        refits = [row for row in found if row["how"] in REFITTING]
        done = [row for row in refits if "cpu_seconds" in row]
        if own and done:
            best = min(done, key=lambda row: row["cpu_seconds"])
            ratio = number(best["cpu_seconds"] / own[0])
            parts.append(f"`{problem}`: {ratio} times ({best['library']} `{best['algorithm']}`)")
        elif own and refits:
            parts.append(f"`{problem}`: no refit ended within {MOST_SECONDS:.0f} seconds")
    return (
        f"After {last:,} observations, the cheapest refit that reached 0.25 sd needs this many times our CPU time for "
        f"one more: {'; '.join(parts)}. Our default takes one observation at a time here, and its posterior is read "
        "after each of them."
    )


def one_fit() -> str:
    """Say on how many problems one fit by NUTS was cheaper than our default on the whole stream."""
    bar = rows.BARS[0]
    shares = []
    for problem in problems():
        fits = [
            verdict.cpu_seconds
            for row, verdict in rows.judged(problem)
            if row["algorithm"].startswith("nuts") and verdict.reaches(bar)
        ]
        default = rows.cheapest(problem, "default", bar)
        if fits:
            shares.append(min(fits) / default[1].cpu_seconds if default else 0.0)
    num_cheaper = sum(share < 1 for share in shares)
    return (
        f"One fit by NUTS to {bar} posterior sd took less CPU time than our filter on the whole stream on "
        f"{num_cheaper} of the {len(shares)} problems where NUTS reached it ([Algorithms compared](contest.md))."
    )


def light() -> str:
    """Say what the first size of our node filter saves against the default size, and how far off it is."""
    ratios, errors = [], []
    for problem in problems():
        found = {row["algorithm"]: verdict for row, verdict in rows.judged(problem)[::-1] if row["library"] == OURS}
        if {"auto", "node"} <= set(found):
            ratios.append(found["auto"].cpu_seconds / found["node"].cpu_seconds)
            errors.append(found["node"].error[-1])
    return (
        f"On the {len(ratios)} problems of the benchmark it takes {number(min(ratios))} to {number(max(ratios))} times "
        f"less CPU time than the default. The rms error of the posterior means is {number(float(np.median(errors)))} "
        f"posterior sd in the median, and {number(max(errors))} at worst."
    )
