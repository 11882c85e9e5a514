"""A node filter over a long stream: `python -m benchmarks.nodes_long_run [--steps 100000] [--kept N ...] [--seeds 2]`.

AR(1) plus noise with wide priors. At each power of ten the posterior is held against the exact one (importance sampling
with a Kalman filter in NumPy, as in `benchmarks.truth`), and the CPU time of an observation since the last one is
noted. After `num_kept` observations nodes are renewed by a surface and nothing is replayed. Rows are kept in
`results/nodes_long_run.json`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace

import jax
import numpy as np

import paramfilter as pf
from benchmarks.tables import put_row
from benchmarks.truth.autoregressions import ar1_data
from benchmarks.truth.problem import Effort
from benchmarks.truth.problems import PROBLEMS
from benchmarks.truth.references import reference

STREAM = 101
"""Of the random numbers that make the data: another than those of the problems."""
EFFORT = Effort(num_adapt=512, num_final=2048, num_repeats=1)
HEADING = {"units": "errors and reported errors in exact posterior sds; CPU microseconds an observation"}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="A node filter over a long stream.")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--kept", type=int, nargs="*", default=[2000, 16384])
    parser.add_argument("--seeds", type=int, default=2)
    chosen = parser.parse_args(arguments)
    for seed in range(chosen.seeds):
        ys = ar1_data(seed, STREAM, chosen.steps)
        times = [10**power for power in range(2, 8) if 10**power <= chosen.steps]
        problem = PROBLEMS["ar1_3000"]
        exact = {t: reference(replace(problem, data=lambda _, part=ys[:t]: part, effort=EFFORT), seed) for t in times}
        for num_kept in chosen.kept:
            follow(problem.model(), ys, exact, num_kept, seed)


def follow(model: pf.StateSpaceModel, ys: np.ndarray, exact: dict[int, dict], num_kept: int, seed: int) -> None:
    """Run a filter over the stream and keep a row at each time that has an exact answer."""
    filter = pf.node_filter(model, num_kept=num_kept)
    pf.run(filter, filter.init(jax.random.key(9)), ys[:20], progress=False)  # compiles
    state, start = filter.init(jax.random.key(seed)), 0
    for end, answer in exact.items():
        began = time.process_time()
        state, history = pf.run(filter, state, ys[start:end], progress=False)
        seconds = time.process_time() - began
        posterior = filter.posterior(state)
        mean, sd, told = posterior.mean(), posterior.sd(), posterior.error()
        row = {
            "seed": seed,
            "kept": num_kept,
            "time": end,
            "error": max(abs(float(mean[name]) - answer["mean"][name]) / answer["sd"][name] for name in mean),
            "sd_ratios": [float(sd[name]) / answer["sd"][name] for name in mean],
            "reported": float(max(told.values())),
            "reference_error": answer["standard_error_of_mean"],
            "renewals": int(np.sum(history.info.resampled)),
            "outcome": int(state.outcome),
            "micros": round(seconds / (end - start) * 1e6, 1),
        }
        put_row("nodes_long_run", HEADING, row, ("seed", "kept", "time"))
        print(row, flush=True)
        start = end


if __name__ == "__main__":
    main()
