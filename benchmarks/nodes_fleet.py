"""A fleet of node filters: `python -m benchmarks.nodes_fleet [--series 10000] [--nodes 32 64]`.

AR(1) plus noise (Kalman filters, three parameters) and stochastic volatility (assumed densities), with few nodes and
few observations kept. Series-steps a CPU second, renewals included, from observation 50 to 100 and from 400 to 450;
bytes of a series; seconds to compile; and how far the fleet's posterior means are from those of a single filter of the
default size, on some of the series, in its posterior sds (root mean square). Rows are kept in
`results/nodes_fleet.json`.
"""

from __future__ import annotations

import argparse
import time

import jax
import numpy as np

import paramfilter as pf
from benchmarks.tables import put_row
from benchmarks.truth.problems import PROBLEMS

MODELS = ("ar1_300", "sv")
NUM_KEPT = 256
STRETCHES = ((50, 100), (400, 450))
NUM_COMPARED = 12
HEADING = {"units": "series-steps a CPU second, by stretch of observations; bytes a series; CPU seconds"}


def main() -> None:
    parser = argparse.ArgumentParser(description="A fleet of node filters.")
    parser.add_argument("models", nargs="*", default=list(MODELS), help=f"of {', '.join(MODELS)}")
    parser.add_argument("--series", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, nargs="*", default=[32, 64])
    chosen = parser.parse_args()
    for name in chosen.models:
        for num_nodes in chosen.nodes:
            row = measure(name, num_nodes, chosen.series)
            put_row("nodes_fleet", HEADING, row, ("model", "nodes", "series"))
            print(row, flush=True)


def measure(name: str, num_nodes: int, num_series: int) -> dict:
    problem = PROBLEMS[name]
    length = STRETCHES[-1][1]
    model = problem.model()
    ys = simulated(model, dict(problem.truth), length, num_series)
    fleet = pf.Fleet(pf.node_filter(model, num_nodes, num_kept=NUM_KEPT))
    began = time.process_time()
    state = fleet.init(jax.random.key(0), range(num_series))
    state, _ = fleet.step(state, ys[0])
    jax.block_until_ready(state)
    compiling = time.process_time() - began
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(state.series)) / len(state.series.time)
    rates, off, at = [], [], 1
    for start, stop in STRETCHES:
        state = go(fleet, state, ys[at:start])
        began = time.process_time()
        state = go(fleet, state, ys[start:stop])
        rates.append(round((stop - start) * num_series / (time.process_time() - began)))
        off.append(round(distance(fleet, state, model, ys[:stop]), 3))
        at = stop
    return {
        "model": name,
        "nodes": num_nodes,
        "series": num_series,
        "rates": rates,
        "off": off,
        "bytes": round(size),
        "compiling": round(compiling, 1),
    }


def simulated(model: pf.StateSpaceModel, truth: dict, length: int, num_series: int) -> np.ndarray:
    """Return observations with axes (time, series)."""
    keys = jax.random.split(jax.random.key(3), num_series)
    ys = jax.jit(jax.vmap(lambda key: pf.simulate(key, model, truth, length)[1]))(keys)
    return np.asarray(ys).T


def go(fleet: pf.Fleet, state, rows: np.ndarray):
    for row in rows:
        state, _ = fleet.step(state, row)
    return jax.block_until_ready(state)


def distance(fleet: pf.Fleet, state, model: pf.StateSpaceModel, ys: np.ndarray) -> float:
    """Return the distance of the fleet's posterior means from a large filter's, in its sds."""
    single, means, far = pf.node_filter(model), fleet.mean(state), []
    for series in range(NUM_COMPARED):
        last, _ = pf.run(single, single.init(jax.random.key(series)), ys[:, series], progress=False)
        right = single.posterior(last)
        far += [(float(means[name][series]) - float(right.mean()[name])) / float(right.sd()[name]) for name in means]
    return float(np.sqrt(np.mean(np.square(far))))


if __name__ == "__main__":
    main()
