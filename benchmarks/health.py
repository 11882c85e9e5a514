"""What a filter's health figures cost: `python -m benchmarks.health`.

The same filter twice in one process, once with R-hat, ancestors, forecasts and the error of beliefs replaced by
constants; steps are timed in turn, and the ratio of the medians is kept in `results/health.json`.
"""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

import paramfilter as pf
from benchmarks.problems import PROBLEMS, Problem, data
from paramfilter.filters import loop
from paramfilter.filters.health import Lineage
from paramfilter.models import linear_gaussian

RESULTS = Path(__file__).parent / "results" / "health.json"
AUTOREGRESSION = Problem("linear_gaussian", linear_gaussian, {"phi": 0.8}, 1000)
NUM_PARTICLES = 1000
NUM_ROUNDS = 25
STEPS_A_ROUND = 20


class _NoLineage(Lineage):
    """Ancestors that nobody follows."""

    def through(self, ancestors, time):
        return self

    def num_ancestors(self):
        return jnp.int32(0)


def without_health():
    """Replace the health figures of the loop by constants."""
    none = {
        "forecast": lambda key, model, x, z, log_weights, inputs: None,
        "predictive_rank": lambda key, forecasts, y: y,
        "disagreement": lambda num_islands, z, log_weights: z[0],
        "approximation_error": lambda belief, shared, statistics, z, log_weights: jnp.zeros((), z.dtype),
        "Lineage": _NoLineage,
    }
    return mock.patch.multiple(loop, **none)


def row(problem: Problem, num_particles: int) -> dict:
    """Time both filters on one problem, in turn."""
    ys = data(problem, 0)[1]
    runs = []
    for is_bare in (False, True):
        filter = pf.extended_parameter_filter(problem.model(), num_particles)

        def steps(state, start, filter=filter):
            def turn(index, state):
                return filter.step(state, jax.tree.map(lambda leaf: leaf[index], ys))[0]

            return jax.lax.fori_loop(start, start + STEPS_A_ROUND, turn, state)

        compiled = jax.jit(steps)
        with without_health() if is_bare else mock.patch.object(loop, "Lineage", Lineage):
            state = filter.init(jax.random.key(1))
            state = jax.block_until_ready(compiled(state, 0))
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
