# /// script
# dependencies = ["paramfilter"]
#
# [tool.contest.node]
# num_nodes = [256, 512, 1024, 2048]
# one_over_accuracy = [10, 20, 50, 50]
# problems = ["sin", "star", "ar1", "stochastic_volatility", "pound_dollar", "nutria", "tracking", "regime_switching",
#     "epidemic", "rainfall_runoff", "multispecies", "seat_belts", "inflation", "fitzhugh_nagumo", "common_factor"]
# reason = "no filter of the state without random numbers"
#
# [tool.contest.auto]
#
# [tool.contest.liu_west]
# num_particles = [300, 3000, 30000, 100000]
#
# [tool.contest.sir]
# num_particles = [300, 3000, 30000, 100000]
#
# [tool.contest.storvik]
# num_particles = [300, 3000, 30000, 100000]
# problems = ["ar1", "multispecies"]
# reason = "no sufficient statistics"
# ///
"""Our own algorithms, asked as the rivals are: `python -m benchmarks.contest enter ours`.

Filters keep no history, as the others do with theirs turned off. What `auto_filter` selects for a problem is one of
them. The ladder of `node` has two sizes: the number of nodes, and one over the accuracy, in posterior sds, that
`posterior` is asked for.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import jax
import numpy as np

import paramfilter as pf
from benchmarks.contest.task import Algorithm, Posterior, Task, each_table, serve
from benchmarks.problems import CONTEST

FILTERS: dict[str, Callable[..., Any]] = {
    "auto": pf.auto_filter,
    "liu_west": pf.liu_west_filter,
    "sir": pf.sir_filter,
    "storvik": pf.storvik_filter,
    "node": lambda model, num_nodes, one_over=50: pf.node_filter(model, num_nodes, accuracy=1 / one_over),
}


def by_filter(kind: str, task: Task) -> Iterator[Posterior]:
    """Yield what a filter believes at each time."""
    filter = filter_once(kind, task.problem, tuple(task.size.values()))
    state = filter.init(jax.random.key(task.seed))
    for ys, inputs in stretches(task):
        state = pf.catch_up(filter, state, ys, inputs)
        yield believed(filter, state)


@cache
def filter_once(kind: str, problem: str, sizes: tuple[int, ...]) -> Any:
    """Return the same filter for all runs, so that what it has compiled is found again."""
    return FILTERS[kind](CONTEST[problem].model(), *sizes)


def stretches(task: Task) -> Iterator[tuple[np.ndarray, Any]]:
    """Yield observations and inputs up to each time."""
    for begin, end in itertools.pairwise((0, *task.times)):
        yield task.ys[begin:end], each_table(operator.itemgetter(slice(begin, end)), task.inputs)


def one_at_a_time(task: Task) -> Iterator[Posterior]:
    """Yield what a node filter believes; the last stretch is taken step by step, and looked at after each."""
    filter = filter_once("node", task.problem, tuple(task.size.values()))
    state = filter.init(jax.random.key(task.seed))
    *parts, (last_ys, last_inputs) = stretches(task)
    for ys, inputs in parts:
        state = pf.catch_up(filter, state, ys, inputs)
        yield believed(filter, state)
    for now, y in enumerate(last_ys):
        state, _ = filter.step(state, y, each_table(operator.itemgetter(now), last_inputs))
        found = believed(filter, state)
    yield found


def believed(filter: Any, state: Any) -> Posterior:
    """Return mean and sd of the posterior, and the log evidence."""
    posterior = filter.posterior(state)
    return Posterior(posterior.mean(), posterior.sd(), float(state.log_evidence))


ALGORITHMS = {
    **{kind: Algorithm(partial(by_filter, kind)) for kind in FILTERS},
    "node_steps": Algorithm(one_at_a_time),
}


if __name__ == "__main__":
    np.seterr(all="ignore")
    serve(ALGORITHMS, giving_up=(pf.ParamfilterError,))
