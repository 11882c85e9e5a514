# /// script
# dependencies = ["paramfilter"]
#
# [tool.contest.node]
# num_particles = [32, 64, 128, 256, 512, 1024, 2048, 4096]
# problems = ["sin", "star", "ar1", "stochastic_volatility", "pound_dollar", "nutria", "tracking", "regime_switching",
#     "epidemic", "rainfall_runoff", "multispecies", "seat_belts", "inflation", "fitzhugh_nagumo", "common_factor"]
# reason = "no filter of the state without random numbers"
#
# [tool.contest.node_rows]
# num_particles = [128, 512, 2048]
# problems = ["sin", "star", "ar1", "stochastic_volatility", "pound_dollar", "nutria", "tracking", "regime_switching",
#     "epidemic", "rainfall_runoff", "multispecies", "seat_belts", "inflation", "fitzhugh_nagumo", "common_factor"]
# reason = "no filter of the state without random numbers"
#
# [tool.contest.auto]
#
# [tool.contest.extended_parameter]
# num_particles = [100, 300, 1000, 3000]
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

Filters take the stream through one compiled loop that keeps nothing but the state, as the rivals' do with their history
turned off. What `auto_filter` selects for a problem is one of them. Where float32 is too coarse, a belief has
float64, as its warning advises.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import paramfilter as pf
from benchmarks.contest.task import Algorithm, Posterior, Task, each_table, serve
from benchmarks.problems import CONTEST
from paramfilter.inspect.cross import FEW_PARAMETERS

FILTERS: dict[str, Callable[..., Any]] = {
    "auto": lambda name, model, num: pf.auto_filter(model),
    "extended_parameter": lambda name, model, num: pf.extended_parameter_filter(model, num),
    "liu_west": lambda name, model, num: pf.liu_west_filter(model, num, num_islands=1),
    "sir": lambda name, model, num: pf.sir_filter(model, num, num_islands=1),
    "storvik": lambda name, model, num: pf.storvik_filter(model, num),
    "node": lambda name, model, num: pf.node_filter(model, num),
}


def by_filter(kind: str, task: Task) -> Iterator[Posterior]:
    """Yield what a filter believes at each time."""
    with jax.enable_x64(kind == "extended_parameter" and needs_float64(task.problem)):
        filter, run = filter_once(kind, task.problem, task.size.get("num_particles", 0))
        stream = (jnp.asarray(task.ys, float), each_table(lambda table: jnp.asarray(table, float), task.inputs))
        state, begin = filter.init(jax.random.key(task.seed)), 0
        for end in task.times:
            state, begin = run(state, stream, begin, end), end
            posterior = filter.posterior(state)
            yield Posterior(posterior.mean(), posterior.sd(), float(state.log_evidence))


@cache
def needs_float64(problem: str) -> bool:
    """Tell whether a belief about so many parameters needs double precision."""
    return CONTEST[problem].model().parameters.dimension > FEW_PARAMETERS


@cache
def filter_once(kind: str, problem: str, num_particles: int):
    """Return the filter and a compiled loop over a stretch of a stream."""
    filter = FILTERS[kind](problem, CONTEST[problem].model(), num_particles)

    if isinstance(filter, pf.nodes.NodeFilter):  # its nodes are renewed between calls of its compiled loop
        return filter, partial(stretch, filter)

    def turn(stream, index, state):
        y, inputs = jax.tree.map(lambda leaf: leaf[index], stream)
        return filter.step(state, y, inputs)[0]

    run = jax.jit(lambda state, stream, begin, end: jax.lax.fori_loop(begin, end, partial(turn, stream), state))
    return filter, run


def by_rows(task: Task) -> Iterator[Posterior]:
    """Yield mean and sd as a node filter's history has them: without `posterior`, which looks at the data again."""
    filter, _ = filter_once("node", task.problem, task.size["num_particles"])
    inputs = each_table(lambda table: jnp.asarray(table, float), task.inputs)
    last = lambda leaves: {name: np.asarray(leaf)[-1] for name, leaf in leaves.items()}
    state = filter.init(jax.random.key(task.seed))
    for begin, end in itertools.pairwise((0, *task.times)):
        part = slice(begin, end)
        ys, inputs_now = jnp.asarray(task.ys[part], float), each_table(operator.itemgetter(part), inputs)
        state, history = pf.run(filter, state, ys, inputs_now, progress=False)
        yield Posterior(last(history.theta.mean), last(history.theta.sd), float(state.log_evidence))


def stretch(filter: pf.nodes.NodeFilter, state: Any, stream: Any, begin: int, end: int) -> Any:
    """Take a filter through a part of a stream."""
    ys, inputs = jax.tree.map(lambda leaf: leaf[begin:end], stream)
    return pf.run(filter, state, ys, inputs, progress=False)[0]


ALGORITHMS = {
    **{kind: Algorithm(partial(by_filter, kind)) for kind in FILTERS},
    "node_rows": Algorithm(by_rows),
}


if __name__ == "__main__":
    np.seterr(all="ignore")
    serve(ALGORITHMS, giving_up=(pf.ParamfilterError,))
