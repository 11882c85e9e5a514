"""Run the contest: `python -m benchmarks.contest.run [problem ...] [--libraries ours smcx ...] [--algorithms ...]`.

For each problem all ladders are climbed side by side, cheap rungs first, each until a rung is good enough or the next
one would take more than `MOST_SECONDS` of CPU. Every rung is written when it is done, and what is there is not run
again, so the command can be stopped and started at will. See PROTOCOL.md.
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

MOST_SECONDS = 300.0
FEWEST_RUNS = 3
STEP = 3.0
"""What the next rung is expected to cost, in costs of the present one."""
DIGITS = 6


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Run the contest of PROTOCOL.md.")
    parser.add_argument("problems", nargs="*", help=f"of {', '.join(CONTEST)}; all unless given")
    parser.add_argument("--libraries", nargs="*", help="ours, particles, smcx, ...; all unless given")
    parser.add_argument("--algorithms", nargs="*", help="default, smc2, ...; all unless given")
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
    """Climb all ladders of one problem, a rung of each in turn."""
    climbing = list(ladders)
    height = max((len(ladder.rungs) for ladder in ladders), default=0)
    with tqdm(total=sum(len(ladder.rungs) for ladder in ladders), desc=problem.name, unit="rung") as bar:
        for rung in range(height):
            for ladder in list(climbing):
                if rung >= len(ladder.rungs) or not climb(problem, ladder, ladder.rungs[rung], most_seconds):
                    climbing.remove(ladder)
                bar.update()


def climb(problem: Problem, ladder: Ladder, size: dict[str, int], most_seconds: float) -> bool:
    """Run one rung if it was not run, and tell whether the next one is worth it."""
    row = rows.find(rows.load(problem.name), ladder.library, ladder.algorithm, size)
    if row is None:
        row = measure(problem, ladder, size, most_seconds)
        rows.put(problem.name, row)
    if "failed" in row:
        tqdm.write(f"{problem.name:18s} {ladder.library:9s} {ladder.algorithm:14s} {size}: {row['failed'][:200]}")
        return False
    found = rows.judge(problem.name, row)
    tqdm.write(
        f"{problem.name:18s} {ladder.library:9s} {ladder.algorithm:14s} {size}: error "
        f"{' '.join(f'{error:.3g}' for error in found.error)}, {found.cpu_seconds:.3g} CPU s"
    )
    return not found.reaches and STEP * found.cpu_seconds < most_seconds


def measure(problem: Problem, ladder: Ladder, size: dict[str, int], most_seconds: float) -> rows.Row:
    """Run one rung on all data sets."""
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
        )
        for data_set in problem.contest_seeds
    ]
    try:
        # twice the work for each run, compiling, and a machine that others use as well
        answers = answer(ladder.library, tasks, seconds=600 + 6 * most_seconds * num_seeds * len(tasks))
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
