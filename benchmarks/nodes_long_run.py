"""A node filter over a long stream: `python -m benchmarks.nodes_long_run [problem ...] [--steps 100000]`.

AR(1) plus noise, stochastic volatility, and a target with two sensors, all with wide priors. The target gets millions
of noise sds away, which float32 cannot hold: `tracking` needs `--double`. At each power of ten the
posterior is held against the exact one (importance sampling with the filters in NumPy of `benchmarks.truth`), and the
CPU time of an observation since the last one is noted. After `num_kept` observations nodes are renewed by a surface and
nothing is replayed. Rows are kept in `results/nodes_long_run.json`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

import paramfilter as pf
from benchmarks.tables import put_row
from benchmarks.truth.autoregressions import SV_TRUTH, ar1_data, states_around_mu
from benchmarks.truth.other_models import TRACKING, tracking_data
from benchmarks.truth.problem import Effort, Problem, generator
from benchmarks.truth.problems import PROBLEMS
from benchmarks.truth.references import reference

STREAM = 101
"""Of the random numbers that make the data: another than those of the problems."""
EFFORT = Effort(num_adapt=512, num_final=2048, num_repeats=1)
EFFORT_ON_A_GRID = Effort(num_adapt=128, num_final=768, num_repeats=1, fineness=0.7)
HEADING = {"units": "errors and reported errors in exact posterior sds; CPU microseconds an observation"}


def sv_data(seed: int, stream: int, num_steps: int) -> np.ndarray:
    random = generator(stream, seed)
    return np.exp(states_around_mu(random, SV_TRUTH, num_steps) / 2) * random.normal(size=num_steps)


STREAMS = {
    "ar1": (PROBLEMS["ar1_3000"], ar1_data, EFFORT),
    "sv": (PROBLEMS["sv"], sv_data, EFFORT_ON_A_GRID),
    "tracking": (TRACKING, tracking_data, EFFORT),
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="A node filter over a long stream.")
    parser.add_argument("problems", nargs="*", default=list(STREAMS), help=f"of {', '.join(STREAMS)}")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--kept", type=int, nargs="*", default=[2000, 16384])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--double", action="store_true", help="float64")
    chosen = parser.parse_args(arguments)
    jax.config.update("jax_enable_x64", chosen.double)
    times = [10**power for power in range(2, 8) if 10**power <= chosen.steps]
    for name in chosen.problems:
        problem, draw, effort = STREAMS[name]
        for seed in range(chosen.seeds):
            ys = draw(seed, STREAM, chosen.steps)
            exact = {t: exact_answer(problem, effort, ys[:t], seed) for t in times}
            for num_kept in chosen.kept:
                follow(name, problem.model(), ys, exact, num_kept, seed)


def exact_answer(problem: Problem, effort: Effort, ys: np.ndarray, seed: int) -> dict:
    """Return the reference of a problem for other data than its own."""
    return reference(replace(problem, data=lambda _: ys, effort=effort), seed)


def follow(
    name: str, model: pf.StateSpaceModel, ys: np.ndarray, exact: dict[int, dict], num_kept: int, seed: int
) -> None:
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
            "problem": name,
            "precision": jnp.result_type(float).name,
            "seed": seed,
            "kept": num_kept,
            "time": end,
            "error": max(abs(float(mean[name]) - answer["mean"][name]) / answer["sd"][name] for name in mean),
            "sd_ratios": [float(sd[name]) / answer["sd"][name] for name in mean],
            "reported": float(max(told.values())),
            "reference_error": answer["standard_error_of_mean"],
            "renewals": int(np.sum(history.info.renewed)),
            "outcome": int(state.outcome),
            "micros": round(seconds / (end - start) * 1e6, 1),
        }
        put_row("nodes_long_run", HEADING, row, ("problem", "precision", "seed", "kept", "time"))
        print(row, flush=True)
        start = end


if __name__ == "__main__":
    main()
