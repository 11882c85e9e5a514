"""What a rival's program reads and prints; needs numpy only, as it runs in every environment.

A task on stdin, null where an observation is missing:

    {"problem": "sin", "ys": [...], "inputs": {"rain": [...]} or [...] or null, "times": [100, 300, 1000],
     "algorithm": "smc2", "size": {"num_theta": 100, "num_x": 100}, "seed": 0}

An answer on stdout, with one entry of each list for each time:

    {"mean": [{"theta": 0.6}, ...], "sd": [...], "log_evidence": [...], "cpu_seconds": 1.0, "cpu_seconds_first": 2.0,
     "cpu_seconds_of_times": [...], "peak_mb": 300.0, "error": null}

The whole job is done twice, or as often as "repeats" says, for the first seed, and once for the others, which find
everything compiled. `cpu_seconds` is the last one's process time: from nothing to the last of the times. An algorithm
that begins anew for each time counts for its last time only. A run that its library gives up has an "error" and NaN
for what it could not say. A task with "seeds", a list, gets a list of answers. A list of tasks gets a list of all that:
what was compiled for one data set serves the next.
"""

from __future__ import annotations

import contextlib
import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Task:
    """One job: data, and what is asked about them."""

    problem: str
    ys: np.ndarray
    inputs: Any
    times: tuple[int, ...]
    algorithm: str
    size: dict[str, int]
    seed: int

    def until(self, time: int) -> Task:
        """Return the same job with the data up to a time."""
        inputs = each_table(lambda table: table[:time], self.inputs)
        return replace(self, ys=self.ys[:time], inputs=inputs, times=(time,))


@dataclass(frozen=True)
class Posterior:
    """What is believed at one time; no sd from an algorithm that gives a point, no evidence where there is none."""

    mean: dict[str, Any]
    sd: dict[str, Any] | None
    log_evidence: float | None = None


@dataclass(frozen=True)
class Algorithm:
    """A function that yields a posterior for each time of its task.

    Args:
        solve: Task to posteriors.
        anew: It begins from nothing for each time.
    """

    solve: Callable[[Task], Iterator[Posterior]]
    anew: bool = False


def each_table(change: Callable[[Any], Any], inputs: Any) -> Any:
    """Apply a function to each table of inputs: one, a dict of them, or none."""
    if inputs is None:
        return None
    return {name: change(table) for name, table in inputs.items()} if isinstance(inputs, dict) else change(inputs)


def moments(draws: dict[str, np.ndarray], weights: np.ndarray | None = None, log_evidence=None) -> Posterior:
    """Return mean and sd of weighted draws, whose first axis is the draw."""
    mean = {name: np.average(values, axis=0, weights=weights) for name, values in draws.items()}
    sd = {
        name: np.sqrt(np.average((values - mean[name]) ** 2, axis=0, weights=weights)) for name, values in draws.items()
    }
    return Posterior(mean, sd, log_evidence)


def serve(algorithms: dict[str, Algorithm], giving_up: tuple[type[Exception], ...] = ()) -> None:
    """Answer the task on stdin; an exception in `giving_up` is the library's way to say that a run has failed."""
    given = json.load(sys.stdin)
    tasks = given if isinstance(given, list) else [given]
    with contextlib.redirect_stdout(sys.stderr):  # what a library prints is not the answer
        answers = [answers_of(said, algorithms, giving_up) for said in tasks]
    json.dump(answers if isinstance(given, list) else answers[0], sys.stdout)


def answers_of(said: dict[str, Any], algorithms: dict[str, Algorithm], giving_up) -> Any:
    """Answer one task, with a list if it has seeds."""
    if "seeds" not in said:
        return answer(said, algorithms, giving_up)
    repeats = [said.get("repeats", 2)] + [1] * (len(said["seeds"]) - 1)
    return [
        answer(said | {"seed": seed, "repeats": times}, algorithms, giving_up)
        for seed, times in zip(said["seeds"], repeats, strict=True)
    ]


def answer(said: dict[str, Any], algorithms: dict[str, Algorithm], giving_up) -> dict[str, Any]:
    """Do one task as often as it says."""
    task = Task(
        problem=said["problem"],
        ys=np.array(said["ys"], float),
        inputs=each_table(np.array, said["inputs"]),
        times=tuple(said["times"]),
        algorithm=said["algorithm"],
        size=said["size"],
        seed=said["seed"],
    )
    algorithm = algorithms[task.algorithm]
    runs = [timed(algorithm, task, giving_up) for _ in range(said.get("repeats", 2))]
    posteriors, seconds, error = runs[-1]
    return {
        "mean": [plain(one.mean) for one in posteriors],
        "sd": [plain(one.sd) for one in posteriors],
        "log_evidence": [None if one.log_evidence is None else float(one.log_evidence) for one in posteriors],
        "cpu_seconds": total(algorithm, seconds),
        "cpu_seconds_first": total(algorithm, runs[0][1]),
        "cpu_seconds_of_times": seconds,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "error": error,
    }


def timed(algorithm: Algorithm, task: Task, giving_up) -> tuple[list[Posterior], list[float], str | None]:
    """Run once; return the posteriors, the CPU seconds between them, and what went wrong."""
    posteriors, seconds, error = [], [], None
    clock = time.process_time()
    try:
        for posterior in algorithm.solve(task):
            posteriors.append(posterior)
            seconds.append(time.process_time() - clock)
            clock = time.process_time()
    except giving_up as failure:
        error = f"{type(failure).__name__}: {failure}"
        unknown = Posterior({"error": float("nan")}, {"error": float("nan")})
        seconds += [time.process_time() - clock] * (len(task.times) - len(posteriors))
        posteriors += [unknown] * (len(task.times) - len(posteriors))
    return posteriors, seconds, error


def total(algorithm: Algorithm, seconds: list[float]) -> float:
    """Return what it took to get to the last time."""
    return seconds[-1] if algorithm.anew else sum(seconds)


def plain(values: dict[str, Any] | None) -> dict[str, Any] | None:
    """Turn arrays into lists."""
    return None if values is None else {name: np.asarray(value, float).tolist() for name, value in values.items()}
