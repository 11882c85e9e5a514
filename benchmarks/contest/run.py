"""Climb ladders: a rung of each algorithm in turn, until it is good enough or the budget is out of reach.

Every rung is written when it is done, and what is there is not run again, so a run can be stopped and started at will.
See PROTOCOL.md.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from datetime import date
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.contest import rows
from benchmarks.contest.entry import Entry, Ladder
from benchmarks.contest.program import Failed, Program, task_of
from benchmarks.problems import Problem, data, inputs_of
from paramfilter.auto import choose_algorithm

BUDGET = 30.0
"""CPU seconds a run."""
FEWEST_RUNS, MOST_RUNS = 5, 20
NEAR = 2.0
"""A rung whose error is within this factor of a bar has the most runs."""
STEP = 3.0
"""What the next rung is expected to cost, in costs of the present one."""
STEEPEST = 1.5
"""No error is expected to fall faster than the cost grows to this power."""
SECONDS_TO_COMPILE = 240.0
BUSY = 4.0
"""Seconds of wall time that a CPU second may take, where others use the machine."""
DIGITS = 6


def contest(problem: Problem, entries: list[Entry], algorithms: list[str] | None, budget: float) -> None:
    """Climb all ladders of one problem."""
    rows.put_default(problem.name, choose_algorithm(problem.model()).name.removesuffix("_filter"))
    climbing = [
        (entry, ladder)
        for entry in entries
        for ladder in entry.ladders
        if ladder.takes(problem.name) and (not algorithms or ladder.algorithm in algorithms)
    ]
    with tqdm(total=sum(len(ladder.rungs) for _, ladder in climbing), desc=problem.name, unit="rung") as bar:
        for rung in range(max((len(ladder.rungs) for _, ladder in climbing), default=0)):
            for entry, ladder in list(climbing):
                if rung >= len(ladder.rungs) or not climb(problem, entry, ladder, ladder.rungs[rung], budget):
                    climbing.remove((entry, ladder))
                bar.update()


def climb(problem: Problem, entry: Entry, ladder: Ladder, size: dict[str, int], budget: float) -> bool:
    """Run one rung if it was not run, and tell whether the next one is worth it."""
    row = rows.find(rows.load(problem.name), ladder.library, ladder.algorithm, size)
    if row is None:
        row = measure(problem, entry, ladder, size, budget)
        rows.put(problem.name, row)
    label = f"{problem.name:18s} {ladder.library:11s} {ladder.algorithm:18s} {size}:"
    if "failed" in row:
        tqdm.write(f"{label} failed: {row['failed'][-200:]}")
        return False
    found = rows.judge(problem.name, row)
    errors = " ".join(f"{error:.3g}" for error in found.error)
    tqdm.write(f"{label} error {errors}, {found.cpu_seconds:.3g} CPU s, {found.num_runs} runs")
    return goes_on(found, budget)


def goes_on(found: rows.Verdict, budget: float) -> bool:
    """Tell whether the best bar is not reached, the next rung fits the budget, and some rung could reach a bar."""
    if found.error[-1] <= min(rows.BARS):
        return False
    best_error = found.error[-1] * (found.cpu_seconds / budget) ** STEEPEST
    return STEP * found.cpu_seconds < budget and bool(best_error <= max(rows.BARS))


def measure(problem: Problem, entry: Entry, ladder: Ladder, size: dict[str, int], budget: float) -> rows.Row:
    """Run one rung on the data sets in turn; the very first run, which compiles, is done twice."""
    row: dict[str, Any] = {"library": ladder.library, "algorithm": ladder.algorithm, "size": size, "runs": []}
    row |= {"date": date.today().isoformat(), "machine": machine()}
    try:
        with Program(entry) as program:
            row["versions"] = program.versions
            patience = BUSY * budget
            first = program.ask(next(tasks(problem, ladder, size))[1], SECONDS_TO_COMPILE + patience)
            row["cpu_seconds_first"] = rounded(first["cpu_seconds"])
            wanted = FEWEST_RUNS
            for data_set, task in tasks(problem, ladder, size):
                found = program.ask(task, SECONDS_TO_COMPILE + patience)
                row["runs"].append(rounded(found) | {"data_set": data_set, "seed": task["seed"]})
                if found["cpu_seconds"] > budget:
                    row["over_budget"] = True
                    break
                if len(row["runs"]) == FEWEST_RUNS:  # and not later: runs do not end when their error pleases
                    wanted = runs_wanted(problem, row)
                if len(row["runs"]) == wanted:
                    break
    except Failed as failure:
        row["failed"] = str(failure)[-500:]
    return row


def tasks(problem: Problem, ladder: Ladder, size: dict[str, int]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield data sets and tasks, one data set after the other, with seeds that are not used again."""
    written = {data_set: np.asarray(data(problem, data_set)[1]) for data_set in problem.contest_seeds}
    for run in range(MOST_RUNS):
        data_set = problem.contest_seeds[run % len(problem.contest_seeds)]
        yield (
            data_set,
            task_of(
                problem.name,
                written[data_set],
                list(problem.times),
                ladder.algorithm,
                size,
                inputs_of(problem),
                seed=100 * data_set + run,
            ),
        )


def runs_wanted(problem: Problem, row: rows.Row) -> int:
    """Return how many runs a rung needs, given the first few."""
    error = rows.judge(problem.name, row).error[-1]
    is_near = any(bar / NEAR < error < bar * NEAR for bar in rows.BARS)
    return MOST_RUNS if is_near else FEWEST_RUNS


def machine() -> str:
    """Name the processor and the system."""
    try:
        with open("/proc/cpuinfo") as lines:
            model = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.processor()
    return f"{model}, {platform.system()} {platform.machine()}"


def rounded(value: Any) -> Any:
    """Round what is kept."""
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
