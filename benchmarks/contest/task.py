"""What an entry's program reads and prints; needs numpy only, as it runs in every environment.

A program says hello in one line, {"versions": {"numpy": "2.3.4", ...}}. Then it reads a task a line, null where an
observation is missing:

    {"problem": "sin", "ys": [...], "inputs": {"rain": [...]} or [...] or null, "times": [100, 300, 1000],
     "algorithm": "smc2", "size": {"num_theta": 100, "num_x": 100}, "seed": 0}

and prints an answer a line, with one entry of each list for each time:

    {"mean": [{"theta": 0.6}, ...], "sd": [...], "log_evidence": [...], "cpu_seconds": 1.0,
     "cpu_seconds_of_times": [...], "peak_mb": 300.0, "error": null}

`cpu_seconds` is process time from nothing to the last of the times. An algorithm that refits counts for its last time
only. A run that its library gives up has an "error" and NaN for what it could not say. What was compiled for one task
serves the next.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TextIO

import numpy as np

NAMED_PACKAGES = (
    "jax", "numpy", "numpyro", "paramfilter", "blackjax", "dynamax", "particles", "pypomp", "smcs", "smcx",
    "statsmodels",
)  # fmt: skip


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
        refits: It begins from nothing for each time.
    """

    solve: Callable[[Task], Iterator[Posterior]]
    refits: bool = False


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
    """Answer task after task; an exception in `giving_up` is the library's way to say that a run has failed."""
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is not the answer
        say(answers, {"versions": versions()})
        for line in sys.stdin:
            say(answers, answer(json.loads(line), algorithms, giving_up))


def say(stream: TextIO, content: dict[str, Any]) -> None:
    stream.write(json.dumps(content) + "\n")
    stream.flush()


def versions() -> dict[str, str]:
    """Return the versions of what is installed here, of the packages that matter."""
    found = {"python": sys.version.split()[0]}
    for name in NAMED_PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def answer(said: dict[str, Any], algorithms: dict[str, Algorithm], giving_up: tuple = ()) -> dict[str, Any]:
    """Do one task."""
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
    posteriors, seconds, error = timed(algorithm, task, giving_up)
    return {
        "mean": [plain(one.mean) for one in posteriors],
        "sd": [plain(one.sd) for one in posteriors],
        "log_evidence": [None if one.log_evidence is None else float(one.log_evidence) for one in posteriors],
        "cpu_seconds": seconds[-1] if algorithm.refits else sum(seconds),
        "cpu_seconds_of_times": seconds,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "error": error,
    }


def timed(algorithm: Algorithm, task: Task, giving_up: tuple) -> tuple[list[Posterior], list[float], str | None]:
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


def plain(values: dict[str, Any] | None) -> dict[str, Any] | None:
    """Turn arrays into lists."""
    return None if values is None else {name: np.asarray(value, float).tolist() for name, value in values.items()}
