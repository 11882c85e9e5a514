# /// script
# dependencies = ["blackjax==1.7.1", "paramfilter"]
#
# [tool.contest.nuts]
# num_draws = [30, 100, 300, 1000, 3000]
# problems = ["ar1", "tracking", "multispecies", "common_factor", "regime_switching"]
# reason = "the states cannot be summed out"
# refits = true
#
# [tool.contest.nuts_centered]
# num_draws = [30, 100, 300, 1000]
# problems = ["sin", "cauchy_ar1", "star", "stochastic_volatility", "pound_dollar", "nutria", "epidemic",
#     "rainfall_runoff", "seat_belts", "inflation", "fitzhugh_nagumo"]
# reason = "the states can be summed out: see nuts"
# refits = true
#
# [tool.contest.nuts_noncentered]
# num_draws = [30, 100, 300, 1000]
# problems = ["sin", "star", "stochastic_volatility", "pound_dollar", "nutria", "epidemic", "rainfall_runoff",
#     "seat_belts", "inflation", "fitzhugh_nagumo"]
# reason = "the states can be summed out, or their noise is not Gaussian"
# refits = true
# ///
"""NUTS by BlackJAX with its window adaptation, refitted for each time: `python -m benchmarks.contest enter blackjax`.

The same log densities, starts and lengths as for NumPyro. The mass matrix is diagonal, as the library's default is for
all coordinates; a dense one of a thousand states would be the wrong choice. Acceptance 0.8.
"""

from __future__ import annotations

from functools import cache

import blackjax
import jax
import numpy as np

from benchmarks.contest.models.flat import model_of
from benchmarks.contest.models.log_density import target_of
from benchmarks.contest.task import Algorithm, Task, moments, serve

FEWEST_WARMUP = 100
FORMS = {"nuts": "marginal", "nuts_centered": "centered", "nuts_noncentered": "noncentered"}


def refit(task: Task):
    """Yield the posterior of a chain of its own for each time."""
    for time in task.times:
        part = task.until(time)
        target = target_of(part, FORMS[task.algorithm])
        run = compiled(task.problem, task.algorithm, time, task.size["num_draws"])
        theta = run(jax.random.key(task.seed), target.ys, target.inputs)
        yield moments({name: np.asarray(values, np.float64) for name, values in theta.items()})


@cache
def compiled(problem: str, algorithm: str, length: int, num_draws: int):
    """Return a compiled chain for data of a length."""
    parameters = model_of(problem).parameters
    target = target_of(Task(problem, np.zeros(0), None, (), algorithm, {}, 0), FORMS[algorithm])

    def run(key, ys, inputs):
        key_start, key_adapt, key_run = jax.random.split(key, 3)
        log_density = lambda at: target.log_density(ys, inputs, at)
        adaptation = blackjax.window_adaptation(blackjax.nuts, log_density)
        start = target.start(ys, inputs, key_start)
        (state, found), _ = adaptation.run(key_adapt, start, max(FEWEST_WARMUP, num_draws))
        step = blackjax.nuts(log_density, **found).step

        def draw(state, key):
            state, _ = step(key, state)
            return state, parameters.constrain(state.position["z"])

        return jax.lax.scan(draw, state, jax.random.split(key_run, num_draws))[1]

    return jax.jit(run)


if __name__ == "__main__":
    serve({name: Algorithm(refit, refits=True) for name in FORMS})
