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

from functools import cache, partial

import blackjax
import jax

from benchmarks.contest.models.log_density import FORMS, num_warmup, refit, target_of
from benchmarks.contest.task import Algorithm, serve


@cache
def compiled(problem: str, form: str, length: int, num_draws: int):
    """Return a compiled chain for data of a length."""
    target = target_of(problem, form)

    def run(key, ys, inputs):
        key_start, key_adapt, key_run = jax.random.split(key, 3)
        log_density = lambda at: target.log_density(ys, inputs, at)
        adaptation = blackjax.window_adaptation(blackjax.nuts, log_density)
        (state, found), _ = adaptation.run(key_adapt, target.start(ys, inputs, key_start), num_warmup(num_draws))
        step = blackjax.nuts(log_density, **found).step

        def draw(state, key):
            state, _ = step(key, state)
            return state, target.theta(state.position["z"])

        return jax.lax.scan(draw, state, jax.random.split(key_run, num_draws))[1]

    return jax.jit(run)


if __name__ == "__main__":
    serve({name: Algorithm(partial(refit, compiled), refits=True) for name in FORMS})
