"""What one more observation costs at t = 100, 1000 and 10,000: the second part of `python -m benchmarks.contest run`.

One data set, one thread. All have the cheapest size that reached 0.25 in the contest, and `reached` is its error there;
algorithms that did not reach it are left out, but for those of one pass. `apart` is how far the mean lies from that of
`auto` at the same time, the worst parameter in sds of `auto`: a warm start may be quick because its chain is stuck.
Four ways to keep up:

- goes on: the CPU seconds from t to t + 100, over 100. `node_steps` takes one observation after the other, and looks
  at `posterior` after each. The others take a hundred at once and look once. A sampler that now and then moves its
  values by a look at all the past pays for that in some stretches and not in others: the figure is the mean from t / 2
  to t where that is more.
- one pass: the CPU seconds of a run up to t, over t. The library's function takes whole series only, but its filter
  could go on.
- refits: a whole run at t.
- warm start: a fit at t, which is not counted, and from its end, step size and mass matrix one at t + 1; by
  `statsmodels`, `append` with a refit. The last of two such refits counts, so that padded data find the program
  compiled, and unpadded data do not. States that are new begin as in a first fit.

A run, which for a warm start is a first fit and two refits, is given up after `MOST_SECONDS` of wall time. What was run
with the same size is not run again.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from functools import cache
from typing import Any

import numpy as np

from benchmarks.contest import rows
from benchmarks.contest.entry import OURS, Entry, Ladder, entry
from benchmarks.contest.program import Failed, Program, TooSlow, task_of
from benchmarks.contest.run import machine
from benchmarks.problems import CONTEST, Problem, data
from benchmarks.tables import put_row, rows_of

PROBLEMS = ("sin", "ar1", "stochastic_volatility", "regime_switching")
TIMES = (100, 1000, 10_000)
MORE = 100
MOST_SECONDS = 300.0
MOST_APART = 0.5
"""Sds from `auto` beyond which a refit counts as failed: a chain that is stuck, or was never adapted."""
IDENTITY = ("problem", "t", "library", "algorithm")
SAME = (*IDENTITY, "size")
GOES_ON, PASSES, REFITS, WARM = "goes on", "one pass", "refits", "warm start"
STEPS = "node_steps"
"""Our node filter, one observation after the other."""
ASKED: dict[tuple[str, str], tuple[str, str]] = {
    ("ours", "auto"): (GOES_ON, "auto"),
    ("ours", "node"): (GOES_ON, "node"),
    ("ours", STEPS): (GOES_ON, "node"),
    ("ours", "liu_west"): (GOES_ON, "liu_west"),
    ("numpyro", "padded_nuts"): (WARM, "nuts"),
    ("numpyro", "unpadded_nuts"): (WARM, "nuts"),
    ("numpyro", "padded_nuts_centered"): (WARM, "nuts_centered"),
    ("numpyro", "padded_nuts_noncentered"): (WARM, "nuts_noncentered"),
    ("numpyro", "unpadded_nuts_centered"): (WARM, "nuts_centered"),
    ("numpyro", "unpadded_nuts_noncentered"): (WARM, "nuts_noncentered"),
    ("blackjax", "padded_nuts"): (WARM, "nuts"),
    ("blackjax", "padded_nuts_centered"): (WARM, "nuts_centered"),
    ("blackjax", "padded_nuts_noncentered"): (WARM, "nuts_noncentered"),
    ("statsmodels", "append"): (WARM, "maximum_likelihood"),
    ("dynamax", "unscented"): (PASSES, "unscented"),
    ("particles", "smc2"): (GOES_ON, "smc2"),
    ("particles", "pmmh"): (REFITS, "pmmh"),
    ("smcx", "smc2"): (REFITS, "smc2"),
    ("pypomp", "pmcmc"): (REFITS, "pmcmc"),
}
"""How each algorithm keeps up, and under which name it was in the contest."""


def keep_up_all(problems: list[Problem], entries: list[Entry], algorithms: list[str] | None, workers: int) -> None:
    """Measure what one more observation costs by all that reached the first bar, a problem on each core."""
    taking_part = [one.name for one in entries]
    chosen = {
        (library, algorithm): way
        for (library, algorithm), way in ASKED.items()
        if library in taking_part and (not algorithms or way[1] in algorithms)
    }
    with ThreadPoolExecutor(workers) as pool:
        running = [pool.submit(keep_up, problem.name, chosen) for problem in problems if problem.name in PROBLEMS]
        for one in running:
            one.result()


def keep_up(problem: str, chosen: dict[tuple[str, str], tuple[str, str]]) -> None:
    """Measure it on one problem."""
    long = replace(CONTEST[problem], num_steps=max(TIMES) + MORE)
    ys = np.asarray(data(long, 0)[1])
    right = cache(lambda: posteriors(problem, ys))
    for (library, algorithm), (how, name) in chosen.items():
        ladder = next(ladder for ladder in entry(library).ladders if ladder.algorithm == name)
        found = size_of(problem, ladder, how) if ladder.takes(problem) else None
        if found is None:
            continue
        size, reached = found
        for time in TIMES:
            row = {"problem": problem, "t": time, "library": library, "algorithm": algorithm, "how": how}
            row |= {"size": size, "reached": reached}
            done = next((one for one in rows_of("one_more") if all(one[key] == row[key] for key in SAME)), None)
            if done is None:
                done = row | seconds_of(problem, library, algorithm, size, ys, time, how, right)
                put_row("one_more", {"units": "CPU seconds", "more": MORE}, done, IDENTITY)
                print(done, flush=True)
            if "failed" in done:
                break


def size_of(problem: str, ladder: Ladder, how: str) -> tuple[dict[str, int], float] | None:
    """Return the cheapest size that reached 0.25 in the contest, and its error; of one pass any size will do."""
    own = [pair for pair in rows.judged(problem) if rows.is_of(pair[0], ladder)]
    good = [(row, verdict) for row, verdict in own if verdict.reaches(rows.BARS[0]) or how == PASSES]
    return (good[0][0]["size"], float(good[0][1].error[-1])) if good else None


def posteriors(problem: str, ys: np.ndarray) -> dict[int, dict]:
    """Return what `auto` says at all times at which algorithms are asked."""
    times = [at for time in TIMES for at in (time, time + 2, time + MORE)]
    with Program(entry(OURS)) as program:
        found = program.ask(task_of(problem, ys[: times[-1]], times, "auto", {}), MOST_SECONDS)
    return {at: {part: found[part][place] for part in ("mean", "sd")} for place, at in enumerate(times)}


def apart(said: dict, right: dict) -> float:
    """Return how far a mean is off, the worst parameter in sds.

    >>> apart({"a": [0.1, 0.5]}, {"mean": {"a": [0.0, 0.5]}, "sd": {"a": [0.2, 0.2]}})
    0.5
    """
    return float(
        max(np.max(np.abs(np.subtract(said[name], mean)) / right["sd"][name]) for name, mean in right["mean"].items())
    )


def seconds_of(
    problem: str,
    library: str,
    algorithm: str,
    size: dict[str, int],
    ys: np.ndarray,
    time: int,
    how: str,
    right: Callable[[], dict],
) -> dict[str, Any]:
    """Return the CPU seconds of one more observation after a time, or what went wrong."""
    asked = {GOES_ON: [time // 2, time, time + MORE], REFITS: [time], PASSES: [time], WARM: [time, time + 1, time + 2]}
    times = asked[how]
    task = task_of(problem, ys[: times[-1]], times, algorithm, size)
    made = {"date": date.today().isoformat(), "machine": machine()}
    try:
        with Program(entry(library)) as program:
            made["versions"] = program.versions
            if how != WARM and library != "particles":  # which compiles next to nothing
                program.ask(task, MOST_SECONDS)
            found = program.ask(task, MOST_SECONDS)
    except (Failed, TooSlow) as failure:
        return {"failed": str(failure)[-300:], **made}
    if found["error"]:
        return {"failed": found["error"], **made}
    seconds = found["cpu_seconds_of_times"]
    if how == GOES_ON:
        cost = max(seconds[-1] / MORE, seconds[-2] / (time - time // 2))
    else:
        cost = seconds[-1] / (time if how == PASSES else 1)
    return {"cpu_seconds": cost, "apart": apart(found["mean"][-1], right()[times[-1]]), **made}
