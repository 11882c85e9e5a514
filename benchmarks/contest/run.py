"""Run the contest: `python -m benchmarks.contest.run [problem ...] [--libraries ours smcx ...] [--algorithms ...]`.

For each problem our presets climb their ladders first. Then all others climb theirs side by side, cheap rungs first,
each until a rung is good enough or the limit is out of reach. Every rung is written when it is done, and what is there
is not run again, so the command can be stopped and started at will. See PROTOCOL.md.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.contest import rows
from benchmarks.contest.ladders import LADDERS, Ladder
from benchmarks.contest.rivals.running import answer, task_of
from benchmarks.problems import CONTEST, Problem, data, inputs_of
from paramfilter.auto import choose_algorithm

MOST_SECONDS, LEAST_SECONDS = 60.0, 10.0
"""Of the limit up to which ladders are climbed."""
FEWEST_RUNS = 3
STEP = 3.0
"""What the next rung is expected to cost, in costs of the present one."""
STEEPEST = 1.5
"""No error is expected to fall faster than the cost grows to this power."""
DIGITS = 6


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Run the contest of PROTOCOL.md.")
    parser.add_argument("problems", nargs="*", help=f"of {', '.join(CONTEST)}; all unless given")
    parser.add_argument("--libraries", nargs="*", help="ours, particles, smcx, ...; all unless given")
    parser.add_argument("--algorithms", nargs="*", help="node, smc2, ...; all unless given")
    parser.add_argument("--most-seconds", type=float, default=MOST_SECONDS)
    chosen = parser.parse_args(arguments)
    ladders = [
        ladder
        for ladder in LADDERS
        if (not chosen.libraries or ladder.library in chosen.libraries)
        and (not chosen.algorithms or ladder.algorithm in chosen.algorithms)
    ]
    for name in chosen.problems or CONTEST:
        contest(CONTEST[name], [ladder for ladder in ladders if ladder.takes(name)], chosen.most_seconds)


def contest(problem: Problem, ladders: list[Ladder], most_seconds: float) -> None:
    """Climb all ladders of one problem: our presets', then a rung of each other in turn."""
    rows.put_default(problem.name, choose_algorithm(problem.model()).name.removesuffix("_filter"))
    with tqdm(total=sum(len(ladder.rungs) for ladder in ladders), desc=problem.name, unit="rung") as bar:
        for is_rival in (False, True):
            climbing = [
                ladder
                for ladder in ladders
                if (rows.kind_of(problem.name, ladder.library, ladder.algorithm) == "rival") is is_rival
            ]
            limit = limit_of(problem.name, most_seconds)
            for rung in range(max((len(ladder.rungs) for ladder in climbing), default=0)):
                for ladder in list(climbing):
                    if rung >= len(ladder.rungs) or not climb(problem, ladder, ladder.rungs[rung], limit):
                        climbing.remove(ladder)
                    bar.update()


def limit_of(problem: str, most_seconds: float) -> float:
    """Return the CPU seconds up to which a ladder is climbed, or those at which it has lost against one of ours."""
    own = [found[1] for kind in ("default", "preset") if (found := rows.cheapest(problem, kind)) is not None]
    return min(most_seconds, max(LEAST_SECONDS, rows.WIN * min(own))) if own else most_seconds


def climb(problem: Problem, ladder: Ladder, size: dict[str, int], limit: float) -> bool:
    """Run one rung if it was not run, and tell whether the next one is worth it."""
    row = rows.find(rows.load(problem.name), ladder.library, ladder.algorithm, size)
    if row is None:
        row = measure(problem, ladder, size, limit)
        rows.put(problem.name, row)
    if "failed" in row:
        tqdm.write(f"{problem.name:18s} {ladder.library:9s} {ladder.algorithm:14s} {size}: {row['failed'][:200]}")
        return False
    found = rows.judge(problem.name, row)
    tqdm.write(
        f"{problem.name:18s} {ladder.library:9s} {ladder.algorithm:14s} {size}: error "
        f"{' '.join(f'{error:.3g}' for error in found.error)}, {found.cpu_seconds:.3g} CPU s"
    )
    return not found.reaches and can_reach(found, limit)


def can_reach(found: rows.Verdict, limit: float) -> bool:
    """Tell whether the next rung fits the limit, and whether any rung within it could be good enough."""
    best_error = found.error[-1] * (found.cpu_seconds / limit) ** STEEPEST
    return STEP * found.cpu_seconds < limit and bool(best_error <= rows.GOOD_ENOUGH)


def measure(problem: Problem, ladder: Ladder, size: dict[str, int], limit: float) -> rows.Row:
    """Run one rung on all data sets, the first run twice."""
    row: dict[str, Any] = {"library": ladder.library, "algorithm": ladder.algorithm, "size": size, "runs": []}
    num_seeds = math.ceil(FEWEST_RUNS / len(problem.contest_seeds))
    tasks = [
        task_of(
            problem.name,
            np.asarray(data(problem, data_set)[1]),
            list(problem.times),
            ladder.algorithm,
            size,
            inputs_of(problem),
            seeds=[100 * data_set + seed for seed in range(num_seeds)],
            repeats=2 if data_set == problem.contest_seeds[0] else 1,
        )
        for data_set in problem.contest_seeds
    ]
    try:
        # one run more, compiling, and a machine that others use as well
        answers = answer(ladder.library, tasks, seconds=600 + 4 * limit * (1 + num_seeds * len(tasks)))
    except (RuntimeError, subprocess.TimeoutExpired) as failure:
        return row | {"failed": str(failure)[-500:]}
    for data_set, found in zip(problem.contest_seeds, answers, strict=True):
        row["runs"] += [_short(one) | {"data_set": data_set} for one in found]
    return row


def _short(found: dict[str, Any]) -> dict[str, Any]:
    """Round what is kept."""

    def rounded(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: rounded(part) for name, part in value.items()}
        if isinstance(value, list):
            return [rounded(part) for part in value]
        return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value

    return rounded(found)


if __name__ == "__main__":
    sys.exit(main())
