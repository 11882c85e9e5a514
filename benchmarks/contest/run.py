"""Climb ladders: a rung of each algorithm in turn, until it is good enough or the budget is out of reach.

Every rung is written when it is done, and what is there is not run again, so a run can be stopped and started at will.
See PROTOCOL.md.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import cache
from typing import Any

import numpy as np

from benchmarks.contest import rows
from benchmarks.contest.entry import Entry, Ladder
from benchmarks.contest.program import Failed, Program, TooSlow, task_of
from benchmarks.problems import CONTEST, Problem, data, inputs_of
from paramfilter.presets import choose_algorithm

BUDGET = 10.0
"""CPU seconds a run."""
FEWEST_RUNS, MOST_RUNS = 5, 20
NEAR = 2.0
"""A rung whose error is within this factor of a bar has the most runs, if they are short."""
SHORT = 1.0
"""CPU seconds of a run that is repeated so often."""
LEAST_STEP = 3.0
"""What the next rung costs at least, in costs of the present one."""
SLACK = 1.5
"""Budgets that the next rung may be expected to cost: what does not grow with its size makes it cheaper than that."""
STUCK = 2
"""A ladder is left after so many rungs in succession that did not lower its error."""
SECONDS_TO_COMPILE = 60.0
BUSY = 2.5
"""Seconds of wall time that a CPU second may take, where others use the machine."""
DIGITS = 6


def contest_all(
    problems: list[Problem], entries: list[Entry], algorithms: list[str] | None, budget: float, workers: int
) -> None:
    """Climb all ladders of some problems, a problem on each core."""
    with ThreadPoolExecutor(workers) as pool:
        running = [pool.submit(contest, problem, entries, algorithms, budget) for problem in problems]
        for one in running:
            one.result()


def contest(problem: Problem, entries: list[Entry], algorithms: list[str] | None, budget: float) -> None:
    """Climb all ladders of one problem, rung by rung, so that algorithms are compared within minutes of each other."""
    rows.put_default(problem.name, choose_algorithm(problem.model()).name.removesuffix("_filter"))
    climbing = [
        (entry, ladder)
        for entry in entries
        for ladder in entry.ladders
        if ladder.takes(problem.name) and (not algorithms or ladder.algorithm in algorithms)
    ]
    for rung in range(max((len(ladder.rungs) for _, ladder in climbing), default=0)):
        for entry, ladder in list(climbing):
            if rung >= len(ladder.rungs) or not climb(problem, entry, ladder, rung, budget):
                climbing.remove((entry, ladder))


def climb(problem: Problem, entry: Entry, ladder: Ladder, rung: int, budget: float) -> bool:
    """Run one rung if it was not run, and tell whether the next one is worth it."""
    size = ladder.rungs[rung]
    row = rows.find(rows.load(problem.name), ladder.library, ladder.algorithm, size)
    if row is None:
        row = measure(problem, entry, ladder, size, budget)
        rows.put(problem.name, row)
    label = f"{problem.name:18s} {ladder.library:11s} {ladder.algorithm:18s} {size}:"
    if "failed" in row:
        print(f"{label} failed: {row['failed'][-200:]}", flush=True)
        return False
    if not row["runs"]:
        print(f"{label} no answer within the budget", flush=True)
        return False
    found = rows.climbed(problem.name, ladder)[: rung + 1]
    errors = " ".join(f"{error:.3g}" for error in found[-1].error)
    print(f"{label} error {errors}, {found[-1].cpu_seconds:.3g} CPU s, {found[-1].num_runs} runs", flush=True)
    return goes_on(found, ladder.step_after(rung), budget)


def goes_on(found: list[rows.Verdict], step: float, budget: float) -> bool:
    """Tell whether the best bar is not reached, the next rung fits the budget, and rungs still lower the error.

    Args:
        found: The verdicts of a ladder's rungs so far.
        step: How many times larger the next rung is.
        budget: CPU seconds a run.
    """
    errors, cost = [verdict.error[-1] for verdict in found], found[-1].cpu_seconds
    if np.isnan(errors[-1]) or errors[-1] <= min(rows.BARS):
        return False
    is_stuck = len(errors) > STUCK and min(errors[-STUCK:]) >= errors[-STUCK - 1]
    is_affordable = LEAST_STEP * cost < budget and step * cost < SLACK * budget
    return is_affordable and not is_stuck


def measure(problem: Problem, entry: Entry, ladder: Ladder, size: dict[str, int], budget: float) -> rows.Row:
    """Run one rung on the data sets in turn; the very first run, which compiles, is done twice."""
    row: dict[str, Any] = {"library": ladder.library, "algorithm": ladder.algorithm, "size": size, "runs": []}
    row |= {"date": date.today().isoformat(), "machine": machine()}
    program = Program(entry)
    try:
        with program:
            row["versions"] = program.versions
            patience = BUSY * budget + (SECONDS_TO_COMPILE if ladder.compiles else 0.0)
            first = program.ask(next(tasks(problem, ladder, size))[1], patience)
            row["cpu_seconds_first"] = rounded(first["cpu_seconds"])
            wanted = FEWEST_RUNS
            for data_set, task in tasks(problem, ladder, size):
                found = program.ask(task, patience)
                row["runs"].append(rounded(found) | {"data_set": data_set, "seed": task["seed"]})
                if found["cpu_seconds"] > budget:
                    row["over_budget"] = True
                    break
                if len(row["runs"]) == FEWEST_RUNS:  # and not later: runs do not end when their error pleases
                    wanted = runs_wanted(problem, row)
                if len(row["runs"]) == wanted:
                    break
    except TooSlow:
        row["over_budget"] = True
    except Failed as failure:
        row["failed"] = str(failure)[-500:]
    return row | {"cpu_seconds_spent": rounded(program.cpu_seconds)}


def tasks(problem: Problem, ladder: Ladder, size: dict[str, int]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield data sets and tasks, one data set after the other, with seeds that are not used again."""
    times = problem.times[-1:] if ladder.refits else problem.times
    for run in range(MOST_RUNS):
        data_set = problem.contest_seeds[run % len(problem.contest_seeds)]
        yield (
            data_set,
            task_of(
                problem.name,
                known_data(problem.name, data_set),
                list(times),
                ladder.algorithm,
                size,
                inputs_of(problem),
                seed=100 * data_set + run,
            ),
        )


@cache
def known_data(problem: str, data_set: int) -> np.ndarray:
    """Return the observations, simulated once."""
    return np.asarray(data(CONTEST[problem], data_set)[1])


def runs_wanted(problem: Problem, row: rows.Row) -> int:
    """Return how many runs a rung needs, given the first few."""
    found = rows.judge(problem.name, row)
    is_near = any(bar / NEAR < found.error[-1] < bar * NEAR for bar in rows.BARS)
    return MOST_RUNS if is_near and found.cpu_seconds <= SHORT else FEWEST_RUNS


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
