"""Node filters with few nodes for each parameter, or far narrower posteriors than priors.

    python -m benchmarks.few_nodes [problem ...]       problems of the contest, `accuracy=0.1`, 6 runs on each data set
    python -m benchmarks.few_nodes --slopes 10 --prior-sd 100      a regression whose posterior is known, default size

Errors are in sds of the reference: rms over parameters and runs, the worst of all, and the median of the largest error
that `posterior.error()` tells. `flagged` is the share of runs that report too few nodes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import paramfilter as pf
from benchmarks.contest import references
from benchmarks.problems import CONTEST, data, inputs_of
from paramfilter.outcome import Outcome

CASES = {"tracking": 64, "regime_switching": 32, "multispecies": 128, "seat_belts": 64, "common_factor": 64}
"""Problems and numbers of nodes."""
RUNS, MOST_DATA_SETS = 6, 2
"""Runs on each data set, of which real problems have one."""
NOISE = 0.1
"""Variance of an observation of the regression, given its slopes: 0.1^2 + 0.3^2."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Compare node filters of few nodes with references.")
    parser.add_argument("problems", nargs="*", default=list(CASES), metavar="problem")
    parser.add_argument("--slopes", type=int, help="of a regression, in place of the problems")
    parser.add_argument("--prior-sd", type=float, default=100.0)
    parser.add_argument("--num-nodes", type=int, help="the default size of the regression unless given")
    parser.add_argument("--num-steps", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=1)
    chosen = parser.parse_args(arguments)
    if chosen.slopes is None:
        for name in chosen.problems:
            num_nodes = chosen.num_nodes or CASES[name]
            print(name, num_nodes, said(list(on_problem(name, num_nodes))), flush=True)
    else:
        runs = on_regression(chosen.slopes, chosen.prior_sd, chosen.num_nodes, chosen.num_steps, chosen.seeds)
        print(said(list(runs)))


def on_problem(name: str, num_nodes: int) -> Iterator[tuple[bool, np.ndarray, float]]:
    """Run a filter several times on each data set of a problem."""
    problem, known = CONTEST[name], references.load()[name]
    filter = pf.node_filter(problem.model(), num_nodes, accuracy=0.1)
    for data_set in problem.contest_seeds[:MOST_DATA_SETS]:
        right = known[str(data_set)][str(problem.times[-1])]
        stream = np.asarray(data(problem, data_set)[1]), inputs_of(problem)
        for run in range(RUNS):
            yield outcome(filter, 100 * data_set + run, stream, right["mean"], right["sd"])


def on_regression(
    num_slopes: int, prior_sd: float, num_nodes: int | None, num_steps: int, num_seeds: int
) -> Iterator[tuple[bool, np.ndarray, float]]:
    """Run a filter on regressions with a known posterior."""
    model = pf.StateSpaceModel(
        prior={"slopes": dist.Normal(jnp.zeros(num_slopes), prior_sd)},
        initial=lambda theta, inputs: dist.Normal(0.0, 0.1),
        transition=lambda theta, x, inputs: dist.Normal(0.0, 0.1),
        observation=lambda theta, x, inputs: dist.Normal(x + jnp.dot(theta["slopes"], inputs), 0.3),
        example_inputs=jnp.zeros(num_slopes),
    )
    filter = pf.node_filter(model, num_nodes, num_kept=num_steps)
    for seed in range(num_seeds):
        draws = np.asarray(jax.random.normal(jax.random.key(seed), (num_steps + 1, num_slopes + 1)))
        inputs, slopes = draws[:-1, 1:], 0.3 * prior_sd * draws[-1, 1:]
        ys = inputs @ slopes + np.sqrt(NOISE) * draws[:-1, 0]
        covariance = np.linalg.inv(inputs.T @ inputs / NOISE + np.eye(num_slopes) / prior_sd**2)
        mean, sd = covariance @ inputs.T @ ys / NOISE, np.sqrt(np.diag(covariance))
        yield outcome(filter, seed, (ys, inputs), {"slopes": mean}, {"slopes": sd})


def outcome(filter: Any, seed: int, stream: Any, mean: dict, sd: dict) -> tuple[bool, np.ndarray, float]:
    """Return whether a run was flagged, its errors, and the largest error that it tells."""
    state = filter.catch_up(filter.init(jax.random.key(seed)), *stream)
    posterior = filter.posterior(state)
    found = posterior.mean()
    errors = [np.ravel((np.asarray(found[name]) - mean[name]) / np.asarray(sd[name])) for name in mean]
    told = max(float(np.max(leaf)) for leaf in posterior.error().values())
    return bool(int(state.outcome) & Outcome.NODES_TOO_FEW), np.concatenate(errors), told


def said(runs: list[tuple[bool, np.ndarray, float]]) -> str:
    flagged, errors, told = zip(*runs, strict=True)
    rms, worst = np.sqrt(np.mean(np.square(errors))), np.max(np.abs(errors))
    return f"flagged {np.mean(flagged):.0%}, rms {rms:.2f}, worst {worst:.2f}, told {np.median(told):.2f}"


if __name__ == "__main__":
    main()
