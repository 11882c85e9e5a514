"""What an observation costs a node filter: `python -m benchmarks.nodes_cost [model ...]`.

For each model, in one process and in turn:

- run: CPU microseconds an observation of `pf.run`, renewals included; step: of single calls of `filter.step`;
- hot: of the compiled program alone, over the same arithmetic written bare (`ratio`): the inner filters of all nodes,
  the sum of log likelihoods and the effective sample size, and the moments that a history records, in a `lax.scan`;
- array: of a compiled function of one array, the least that a call takes.

Medians of several turns; each row is kept in `results/nodes_cost.json`.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import paramfilter as pf
from benchmarks.tables import put_row
from benchmarks.truth.problems import PROBLEMS
from paramfilter.filters.window import WINDOW, window_of
from paramfilter.nodes.advance import advance

NUM_STEPS, NUM_CALLS, NUM_ROUNDS = 2048, 50, 9
HEADING = {"units": "CPU microseconds an observation"}


@dataclass(frozen=True)
class Case:
    """A model, and what makes its data."""

    model: Callable[[], pf.StateSpaceModel]
    truth: dict[str, Any]


def of_truth(name: str) -> Case:
    problem = PROBLEMS[name]
    return Case(problem.model, dict(problem.truth))


CASES = {
    "ar1": of_truth("ar1_300"),
    "tracking": Case(pf.models.tracking, {"q": 0.02, "r": [1.0, 0.3], "bias": 0.5}),
    "stochastic_volatility": of_truth("sv"),
    "sin": of_truth("sin"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="What an observation costs a node filter.")
    parser.add_argument("models", nargs="*", default=list(CASES), help=f"of {', '.join(CASES)}")
    for name in parser.parse_args().models:
        row = measure(name, CASES[name])
        put_row("nodes_cost", HEADING, row, ("model",))
        print(row, flush=True)


def measure(name: str, case: Case) -> dict[str, Any]:
    model = case.model()
    _, ys = pf.simulate(jax.random.key(0), model, case.truth, NUM_STEPS + WINDOW)
    ys, coming = np.asarray(ys)[:NUM_STEPS], np.asarray(ys)[NUM_STEPS:]
    filter = pf.node_filter(model)
    start = filter.init(jax.random.key(1))
    late, _ = pf.run(filter, start, ys, progress=False)
    window, _ = window_of((coming, None))
    program = filter.engine.compiled(advance)
    steps = (np.int32(0), np.int32(WINDOW), np.bool_(True))
    patient = replace(late, trigger=np.float32(0.0))  # so that the program does not stop to renew
    bare, array = jax.jit(functools.partial(bare_steps, filter)), jax.jit(lambda ys: ys + 1)
    seconds = in_turn(
        {
            "run": lambda: pf.run(filter, start, ys, progress=False),
            "step": lambda: calls(filter, late, coming[:NUM_CALLS]),
            "hot": lambda: program(patient, filter.engine.blank, window, None, *steps),
            "bare": lambda: bare(patient.nodes, jnp.asarray(window)),
            "array": lambda: [jax.block_until_ready(array(coming)) for _ in range(NUM_CALLS)],
        }
    )
    each = {"run": NUM_STEPS, "step": NUM_CALLS, "hot": WINDOW, "bare": WINDOW, "array": NUM_CALLS}
    cost = {what: round(float(np.median(seconds[what])) / each[what] * 1e6, 2) for what in seconds}
    return {
        "model": name,
        "filter": repr(filter),
        **cost,
        "ratio": round(float(np.median(seconds["hot"] / seconds["bare"])), 3),
    }


def in_turn(runs: dict[str, Callable[[], Any]]) -> dict[str, np.ndarray]:
    """Time several things in turn, in CPU seconds; each is done once before, to be compiled."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(NUM_ROUNDS + 1):
        for name, run in runs.items():
            began = time.process_time()
            jax.block_until_ready(run())
            if turn > 0:
                seconds[name].append(time.process_time() - began)
    return {name: np.array(values) for name, values in seconds.items()}


def calls(filter: Any, state: Any, ys: np.ndarray) -> Any:
    for y in ys:
        state, _ = filter.step(state, y)
    return state


def bare_steps(filter: Any, nodes: Any, ys: jax.Array) -> Any:
    """Take nodes through a window with nothing around the arithmetic."""

    def step(carry, y):
        x, log_likelihood = carry
        x, increments = filter.engine.inner.step(nodes.constants, x, y, None)
        log_likelihood = log_likelihood + increments
        log_likelihood = log_likelihood - jnp.max(log_likelihood)
        weights = jnp.exp(nodes.log_prior + log_likelihood - nodes.log_proposal)
        total = jnp.sum(weights)
        share = weights / total
        means = [share @ leaf.reshape(len(share), -1) for leaf in nodes.theta.values()]
        squares = [share @ leaf.reshape(len(share), -1) ** 2 for leaf in nodes.theta.values()]
        state_mean, state_variance = filter.engine.inner.moments(x)
        flat = state_mean.reshape(len(share), -1)
        states = (share @ flat, share @ (flat**2 + state_variance.reshape(flat.shape)))
        return (x, log_likelihood), (total**2 / jnp.sum(weights**2), jnp.log(total), means, squares, states)

    return jax.lax.scan(step, (nodes.x, nodes.log_likelihood), ys)


if __name__ == "__main__":
    main()
