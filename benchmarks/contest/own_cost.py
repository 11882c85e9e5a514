"""Where CPU time goes in a node filter's run of the contest: `python -m benchmarks.contest.own_cost [problem ...]`.

Three answers are asked, as in the contest. In milliseconds, each the median of several in one process:

- `run`, `read`: taking the stream in, and reading the three posteriors.
- `arithmetic`: one pass of all nodes through all data, which is what a run cannot do without.
- `round`: drawing new nodes and taking them through all data, of which `arithmetic` is a part.
- `window`: 256 observations with their history; `window, bare`: the same without.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import jax
import numpy as np

from benchmarks.contest.entries.ours import filter_once
from benchmarks.problems import CONTEST, data, inputs_of
from benchmarks.tables import put_row
from paramfilter.filters.advance import WINDOW, window_of
from paramfilter.nodes.advance import advance
from paramfilter.nodes.pool import Pool
from paramfilter.nodes.reading import ACCURACY
from paramfilter.nodes.replay import another_round, through
from paramfilter.nodes.stretch import take_in
from paramfilter.tracing import on_host

PROBLEMS = ("ar1", "stochastic_volatility", "multispecies")
REPEATS = 5


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure where a node filter's CPU time goes.")
    parser.add_argument("problems", nargs="*", default=list(PROBLEMS))
    parser.add_argument("--num-nodes", nargs="*", type=int, default=[64, 512])
    parser.add_argument("--accuracy", type=float, default=ACCURACY, help="of a posterior, in its sds")
    chosen = parser.parse_args(arguments)
    for problem in chosen.problems:
        for num_nodes in chosen.num_nodes:
            row = {"problem": problem, "num_nodes": num_nodes, "accuracy": chosen.accuracy}
            row |= stages(problem, num_nodes, chosen.accuracy)
            put_row("own_cost", {"units": "milliseconds of CPU"}, row, ("problem", "num_nodes", "accuracy"))
            print(row, flush=True)


def stages(problem: str, num_nodes: int, accuracy: float) -> dict[str, float]:
    """Return the CPU time of each stage."""
    asked = CONTEST[problem]
    filter = filter_once("node", problem, (num_nodes, 1 / accuracy))
    stream = np.asarray(data(asked, 0)[1]), inputs_of(asked)
    begin = filter.init(jax.random.key(0))

    def up_to(*times: int) -> list[Any]:
        """Return the states after some times, in one run."""
        parts = (jax.tree.map(itemgetter(slice(*ends)), stream) for ends in itertools.pairwise((0, *times)))
        return list(itertools.accumulate(parts, lambda state, part: filter.catch_up(state, *part), initial=begin))[1:]

    states = up_to(*asked.times)

    end = on_host(states[-1])
    pool = Pool.start(end.nodes, np.zeros(num_nodes), 2, np.float64)
    z, log_proposal = np.asarray(end.nodes.z), np.asarray(end.nodes.log_proposal)
    window, length = window_of(stream, asked.num_steps - WINDOW), np.int32(WINDOW)
    (before,) = up_to(asked.num_steps - WINDOW)
    calm = filter.compiled(take_in)(before, *window, np.int32(0), length)[1] == WINDOW
    assert calm, "nodes were renewed within the window: take another problem"
    return {
        "run": median(lambda: up_to(*asked.times)[-1].nodes.z),
        "read": median(lambda: [filter.posterior(state).mean() for state in states]),
        "arithmetic": median(lambda: filter.compiled(through)(z, log_proposal, end.kept, end.time)[0].z),
        "round": median(lambda: another_round(filter, end, pool, 3, 1)[0].z),
        "window": median(lambda: filter.compiled(advance)(before, filter.blank, *window, np.int32(0), length)[2]),
        "window, bare": median(lambda: filter.compiled(take_in)(before, *window, np.int32(0), length)[1]),
    }


def median(call: Callable[[], Any]) -> float:
    """Return the milliseconds of CPU of a call, the first one not counted."""
    found = []
    for _ in range(1 + REPEATS):
        start = time.process_time()
        jax.block_until_ready(call())
        found.append(1e3 * (time.process_time() - start))
    return round(statistics.median(found[1:]), 2)


if __name__ == "__main__":
    main()
