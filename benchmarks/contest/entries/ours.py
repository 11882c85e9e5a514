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
# num_particles = [100, 400, 1000, 4000, 10000, 40000, 100000]
#
# [tool.contest.paper]
# num_particles = [100, 300, 1000, 3000, 10000, 30000, 100000]
# problems = ["sin", "cauchy_ar1", "star"]
# reason = "the paper's series are written out for these three"
#
# [tool.contest.liu_west]
# num_particles = [100, 300, 1000, 3000, 10000, 30000, 100000]
#
# [tool.contest.sir]
# num_particles = [100, 300, 1000, 3000, 10000, 30000, 100000]
#
# [tool.contest.storvik]
# num_particles = [100, 300, 1000, 3000, 10000, 30000, 100000]
# problems = ["ar1", "multispecies"]
# reason = "no sufficient statistics"
#
# [tool.contest.nested]
# num_particles = [30, 100, 200, 300, 600]
#
# [tool.contest.smc2]
# num_theta = [30, 100, 100, 100, 300, 300]
# num_x = [30, 30, 100, 300, 300, 1000]
#
# [tool.contest.pmmh]
# num_iterations = [100, 300, 300, 1000, 1000, 3000]
# num_x = [300, 300, 1000, 1000, 3000, 3000]
# refits = true
# ///
"""Our own algorithms, asked as the rivals are: `python -m benchmarks.contest enter ours`.

Filters take the stream through one compiled loop that keeps nothing but the state, as the rivals' do with their history
turned off. What `auto_filter` takes for a problem is one of them. Where the choice of belief prints that float32 is too
coarse, its advice is taken; the paper's series are summed in float64, as on the page that reproduces it.
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
from papers.epf2013.series import PAPER_LOOP, printed_cauchy, printed_sin, printed_star

import paramfilter as pf
from benchmarks.contest.task import Algorithm, Posterior, Task, each_table, serve
from benchmarks.problems import CONTEST
from paramfilter.inspect.cross import FEW_PARAMETERS

PAPER_BELIEFS = {"sin": printed_sin(), "cauchy_ar1": printed_cauchy(), "star": printed_star()}

FILTERS: dict[str, Callable[..., Any]] = {
    "auto": lambda name, model, num: pf.auto_filter(model),
    "extended_parameter": lambda name, model, num: pf.extended_parameter_filter(model, num),
    "paper": lambda name, model, num: pf.ParticleFilter(model, num, PAPER_BELIEFS[name], **PAPER_LOOP),
    "liu_west": lambda name, model, num: pf.liu_west_filter(model, num, num_islands=1),
    "sir": lambda name, model, num: pf.sir_filter(model, num, num_islands=1),
    "storvik": lambda name, model, num: pf.storvik_filter(model, num),
    "nested": lambda name, model, num: pf.nested_particle_filter(model, num),
    "node": lambda name, model, num: pf.node_filter(model, num),
}


def by_filter(kind: str, task: Task) -> Iterator[Posterior]:
    """Yield what a filter believes at each time."""
    is_coarse = CONTEST[task.problem].model().parameters.dimension > FEW_PARAMETERS
    with jax.enable_x64(kind == "paper" or (is_coarse and kind == "extended_parameter")):
        filter, run = filter_once(kind, task.problem, task.size.get("num_particles", 0))
        stream = (jnp.asarray(task.ys, float), each_table(lambda table: jnp.asarray(table, float), task.inputs))
        state, begin = filter.init(jax.random.key(task.seed)), 0
        for end in task.times:
            state, begin = run(state, stream, begin, end), end
            posterior = filter.posterior(state)
            yield Posterior(posterior.mean(), posterior.sd(), float(state.log_evidence))


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


def smc2(task: Task) -> Iterator[Posterior]:
    """Yield what SMC^2 believes at each time, one observation after the other."""
    sampler = smc2_once(task.problem, task.size["num_theta"], task.size["num_x"])
    state = sampler.init(jax.random.key(task.seed))
    for index in range(task.times[-1]):
        inputs = each_table(lambda table, now=index: table[now], task.inputs)
        state = sampler.step(state, task.ys[index], inputs)
        if index + 1 in task.times:
            found = sampler.posterior(state)
            yield Posterior(found.mean(), found.sd(), found.log_evidence)


@cache
def smc2_once(problem: str, num_theta: int, num_x: int) -> pf.references.SMC2:
    """Return a sampler that keeps what it has compiled."""
    return pf.references.SMC2(CONTEST[problem].model(), num_theta, num_x)


def pmmh(task: Task) -> Iterator[Posterior]:
    """Yield the posterior of a chain of its own for each time; the first tenth is thrown away, as for the rivals."""
    for time in task.times:
        part = task.until(time)
        num_warmup = task.size["num_iterations"] // 10
        found = pf.references.pmmh(
            jax.random.key(task.seed),
            CONTEST[task.problem].model(),
            part.ys,
            part.inputs,
            num_particles=task.size["num_x"],
            num_warmup=num_warmup,
            num_draws=task.size["num_iterations"] - num_warmup,
            num_chains=1,
        )
        yield Posterior(found.mean(), found.sd())


ALGORITHMS = {
    **{kind: Algorithm(partial(by_filter, kind)) for kind in FILTERS},
    "node_rows": Algorithm(by_rows),
    "smc2": Algorithm(smc2),
    "pmmh": Algorithm(pmmh, refits=True),
}


if __name__ == "__main__":
    np.seterr(all="ignore")
    serve(ALGORITHMS, giving_up=(pf.ParamfilterError,))
