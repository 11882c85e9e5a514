"""A fleet of node filters: `python -m benchmarks.nodes_fleet [model ...] [--nodes 64 128] [--kept 1024]`.

AR(1) plus noise (Kalman filters, three parameters) and stochastic volatility (assumed densities). Said of a fleet:

- series-steps a CPU second by `fleet.run`, renewals included, over stretches of the stream, and by `fleet.step`;
- the ratio of `fleet.run` to the bare arithmetic of the nodes, which is mapped over as many series, at the end;
- bytes of a series, and CPU seconds until the first step is done;
- how far posterior means are from those of a single filter of the default size, in its posterior sds (root mean
  square over 200 series), as the fleet reads them and as the weighted nodes alone would have it; the share of series
  that are flagged.

Rows are kept in `results/nodes_fleet.json`.
"""

from __future__ import annotations

import argparse
import functools
import time

import jax
import jax.numpy as jnp
import numpy as np

import paramfilter as pf
from benchmarks.tables import put_row
from benchmarks.truth.problems import PROBLEMS
from paramfilter.nodes.filter import NodeEngine
from paramfilter.nodes.loop import observe

MODELS = ("ar1_300", "sv")
STRETCHES = ((32, 128), (128, 512), (512, 992))
LENGTH = STRETCHES[-1][1]
NUM_COMPARED = 200
NUM_STEPS = 8
"""Observations that are stepped one by one."""
HEADING = {"units": "series-steps a CPU second, by stretch of observations; bytes a series; CPU seconds"}


def main() -> None:
    parser = argparse.ArgumentParser(description="A fleet of node filters.")
    parser.add_argument("models", nargs="*", default=list(MODELS), help=f"of {', '.join(MODELS)}")
    parser.add_argument("--series", type=int, default=2000)
    parser.add_argument("--nodes", type=int, nargs="*", default=[64, 128])
    parser.add_argument("--kept", type=int, nargs="*", default=[256, 1024])
    chosen = parser.parse_args()
    for name in chosen.models:
        for num_nodes in chosen.nodes:
            for num_kept in chosen.kept:
                row = measure(name, num_nodes, num_kept, chosen.series)
                put_row("nodes_fleet", HEADING, row, ("model", "nodes", "kept", "series"))
                print(row, flush=True)


def measure(name: str, num_nodes: int, num_kept: int, num_series: int) -> dict:
    problem = PROBLEMS[name]
    model = problem.model()
    ys = simulated(name, num_series)
    fleet = pf.Fleet(pf.node_filter(model, num_nodes, num_kept=num_kept))
    began = time.process_time()
    state = fleet.init(jax.random.key(0), range(num_series))
    state = jax.block_until_ready(fleet.run(state, ys[:, : STRETCHES[0][0]]))
    compiling = time.process_time() - began
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(state.series)) / len(state.series.time)
    rates = []
    for start, stop in STRETCHES:
        began = time.process_time()
        state = jax.block_until_ready(fleet.run(state, ys[:, start:stop]))
        rates.append(round((stop - start) * num_series / (time.process_time() - began)))
    read = distance(fleet.mean(state), name, num_series)
    alone = jax.jit(jax.vmap(fleet.filter.engine.moments))(jax.tree.map(lambda leaf: leaf[:NUM_COMPARED], state.series))
    flags = np.asarray(state.series.outcome)[:num_series]
    bare = bare_rate(fleet.filter.engine, state, ys[:, -32:])
    state, _ = fleet.step(state, ys[:, 0])
    began = time.process_time()
    for time_of_step in range(NUM_STEPS):
        state, _ = fleet.step(state, ys[:, time_of_step])
    jax.block_until_ready(state)
    return {
        "model": name,
        "nodes": num_nodes,
        "kept": num_kept,
        "series": num_series,
        "rates": rates,
        "step_rate": round(NUM_STEPS * num_series / (time.process_time() - began)),
        "bare_rate": bare,
        "off": round(read, 4),
        "off_by_nodes_alone": round(distance(alone.mean, name, num_series), 4),
        "flagged": round(float(np.mean(flags != 0)), 3),
        "bytes": round(size),
        "compiling": round(compiling, 1),
    }


@functools.cache
def simulated(name: str, num_series: int) -> np.ndarray:
    """Return observations with axes (series, time)."""
    problem = PROBLEMS[name]
    model, truth = problem.model(), dict(problem.truth)
    keys = jax.random.split(jax.random.key(3), num_series)
    return np.asarray(jax.jit(jax.vmap(lambda key: pf.simulate(key, model, truth, LENGTH)[1]))(keys))


@functools.cache
def reference(name: str, num_series: int) -> list[tuple[dict, dict]]:
    """Return posterior means and sds of the first series by a large filter."""
    model, found = PROBLEMS[name].model(), []
    single = pf.node_filter(model)
    for series, ys in enumerate(simulated(name, num_series)[:NUM_COMPARED]):
        last, _ = pf.run(single, single.init(jax.random.key(series)), ys, progress=False)
        posterior = single.posterior(last)
        found.append((posterior.mean(), posterior.sd()))
    return found


def distance(means: dict, name: str, num_series: int) -> float:
    """Return the distance of posterior means from the reference's, in its sds."""
    far = [
        (float(means[parameter][series]) - float(mean[parameter])) / float(sd[parameter])
        for series, (mean, sd) in enumerate(reference(name, num_series))
        for parameter in mean
    ]
    return float(np.sqrt(np.mean(np.square(far))))


def bare_rate(engine: NodeEngine, state, ys: np.ndarray) -> int:
    """Return series-steps a CPU second of the nodes' arithmetic alone: no renewals, no checks, nothing kept."""
    nodes = jax.tree.map(lambda leaf: leaf[: len(ys)], state.series.nodes)

    @jax.jit
    def go(nodes, ys):
        step = jax.vmap(lambda nodes, y: observe(engine, nodes, y, None))
        return jax.lax.fori_loop(0, ys.shape[1], lambda now, nodes: step(nodes, ys[:, now]), nodes)

    jax.block_until_ready(go(nodes, ys))
    began = time.process_time()
    jax.block_until_ready(go(nodes, jnp.asarray(ys)))
    return round(ys.size / (time.process_time() - began))


if __name__ == "__main__":
    main()
