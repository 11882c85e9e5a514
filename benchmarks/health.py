"""What a filter's health figures cost: `python -m benchmarks.health`.

The same filter twice in one process, with and without R-hat, ancestors and forecasts; steps are timed in turn, and the
ratio of the medians is kept in `results/health.json`.
"""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path

import jax
import numpy as np

import paramfilter as pf
from benchmarks.problems import PROBLEMS, Problem, data
from paramfilter.models import linear_gaussian

RESULTS = Path(__file__).parent / "results" / "health.json"
AUTOREGRESSION = Problem("linear_gaussian", linear_gaussian, {"phi": 0.8}, 1000)
NUM_PARTICLES = 1000
NUM_ROUNDS = 25
STEPS_A_ROUND = 20


def row(problem: Problem, num_particles: int) -> dict:
    """Time both filters on one problem, in turn."""
    ys = data(problem, 0)[1]
    runs = []
    for health in (True, False):
        filter = pf.extended_parameter_filter(problem.model(), num_particles, health=health)

        def steps(state, start, filter=filter):
            def turn(index, state):
                return filter.step(state, jax.tree.map(lambda leaf: leaf[index], ys))[0]

            return jax.lax.fori_loop(start, start + STEPS_A_ROUND, turn, state)

        compiled = jax.jit(steps)
        state = jax.block_until_ready(compiled(filter.init(jax.random.key(1)), 0))
        runs.append((compiled, state))
    times: list[list[float]] = [[], []]
    for turn in range(NUM_ROUNDS):
        for index, (compiled, state) in enumerate(runs):
            began = time.process_time()
            state = jax.block_until_ready(compiled(state, STEPS_A_ROUND * (turn % 10)))
            times[index].append(time.process_time() - began)
            runs[index] = (compiled, state)
    ratios = np.array(times[0]) / np.array(times[1])
    return {
        "problem": problem.name,
        "particles": num_particles,
        "microseconds_with": round(1e6 * statistics.median(times[0]) / STEPS_A_ROUND, 1),
        "microseconds_without": round(1e6 * statistics.median(times[1]) / STEPS_A_ROUND, 1),
        "ratio": round(float(np.median(ratios)), 3),
        "ratio_quartiles": np.round(np.quantile(ratios, [0.25, 0.75]), 3).tolist(),
    }


def main() -> None:
    """Judge the problems of the whole-filter table."""
    rows = []
    names = ("sin", "star", "stochastic_volatility", "multispecies")
    for problem in (AUTOREGRESSION, *(PROBLEMS[name] for name in names)):
        jax.clear_caches()
        rows.append(row(problem, NUM_PARTICLES))
        print(json.dumps(rows[-1]), flush=True)
    RESULTS.write_text(json.dumps({"rounds": NUM_ROUNDS, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
