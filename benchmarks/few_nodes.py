"""Node filters with few nodes for each parameter: `python -m benchmarks.few_nodes [problem ...]`.

Problems of the contest, `accuracy=0.1`, 6 runs on each data set.

Errors are in sds of the reference: rms over parameters and runs, the worst of all, and the median of the largest error
that `posterior.error()` tells. `flagged` is the share of runs that report too few nodes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

import paramfilter as pf
from benchmarks.contest import references
from benchmarks.problems import CONTEST, data, inputs_of
from paramfilter.outcome import Outcome

CASES = {"tracking": 64, "regime_switching": 32, "multispecies": 128, "seat_belts": 64, "common_factor": 64}
"""Problems and numbers of nodes."""
RUNS, MOST_DATA_SETS = 6, 2
"""Runs on each data set, of which real problems have one."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Compare node filters of few nodes with references.")
    parser.add_argument("problems", nargs="*", default=list(CASES), metavar="problem")
    parser.add_argument("--num-nodes", type=int, help="of all problems")
    chosen = parser.parse_args(arguments)
    for name in chosen.problems:
        num_nodes = chosen.num_nodes or CASES[name]
        print(name, num_nodes, said(list(on_problem(name, num_nodes))), flush=True)


def on_problem(name: str, num_nodes: int) -> Iterator[tuple[bool, np.ndarray, float]]:
    """Run a filter several times on each data set of a problem."""
    problem, known = CONTEST[name], references.load()[name]
    filter = pf.node_filter(problem.model(), num_nodes, accuracy=0.1)
    for data_set in problem.contest_seeds[:MOST_DATA_SETS]:
        right = known[str(data_set)][str(problem.times[-1])]
        stream = np.asarray(data(problem, data_set)[1]), inputs_of(problem)
        for run in range(RUNS):
            yield outcome(filter, 100 * data_set + run, stream, right["mean"], right["sd"])


def outcome(filter: Any, seed: int, stream: Any, mean: dict, sd: dict) -> tuple[bool, np.ndarray, float]:
    """Return whether a run was flagged, its errors, and the largest error that it tells."""
    state = pf.catch_up(filter, filter.init(jax.random.key(seed)), *stream)
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
