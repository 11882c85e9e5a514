# /// script
# dependencies = ["blackjax==1.7.1", "paramfilter"]
#
# [tool.contest.nuts]
# num_draws = [30, 30, 100, 300, 1000, 3000]
# num_warmup = [50, 100, 100, 300, 1000, 3000]
# problems = ["ar1", "tracking", "multispecies", "common_factor", "regime_switching"]
# reason = "the states cannot be summed out"
# refits = true
#
# [tool.contest.nuts_centered]
# num_draws = [30, 30, 100, 300, 1000]
# num_warmup = [50, 100, 100, 300, 1000]
# problems = ["sin", "cauchy_ar1", "star", "stochastic_volatility", "pound_dollar", "nutria", "epidemic",
#     "rainfall_runoff", "seat_belts", "inflation", "fitzhugh_nagumo"]
# reason = "the states can be summed out: see nuts"
# refits = true
#
# [tool.contest.nuts_noncentered]
# num_draws = [30, 30, 100, 300, 1000]
# num_warmup = [50, 100, 100, 300, 1000]
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
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from benchmarks.contest.models.log_density import Target, nuts_algorithms, target_of
from benchmarks.contest.task import serve


def draws(target: Target, log_density: Any, state: Any, key: jax.Array, num_draws: int, adapted: dict[str, Any]):
    """Return the last state of a chain and its draws of theta."""
    step = blackjax.nuts(log_density, **adapted).step

    def draw(state, key):
        state, _ = step(key, state)
        return state, target.theta(state.position["z"])

    return jax.lax.scan(draw, state, jax.random.split(key, num_draws))


def fit(target: Target, ys: Any, inputs: Any, num_warmup: int, num_draws: int, key: jax.Array):
    """Return draws of a whole fit, its last position, its step size and its inverse mass by name."""
    key_start, key_adapt, key_run = jax.random.split(key, 3)
    log_density = lambda at: target.log_density(ys, inputs, at)
    adaptation = blackjax.window_adaptation(blackjax.nuts, log_density)
    (state, found), _ = adaptation.run(key_adapt, target.start(ys, inputs, key_start), num_warmup)
    state, theta = draws(target, log_density, state, key_run, num_draws, found)
    mass = ravel_pytree(state.position)[1](found["inverse_mass_matrix"])
    return theta, state.position, found["step_size"], jax.tree.map(jnp.ravel, mass)


@cache
def compiled(problem: str, form: str, length: int, num_warmup: int, num_draws: int):
    """Return a compiled chain for data of a length."""
    target = target_of(problem, form)
    return jax.jit(lambda key, ys, inputs: fit(target, ys, inputs, num_warmup, num_draws, key)[0])


@cache
def going_on(problem: str, form: str, length: int, num_draws: int):
    """Return a compiled chain that begins where another has ended, with its step and mass matrix and no warm-up."""
    target = target_of(problem, form)

    def run(key, ys, inputs, start, step_size, mass):
        log_density = lambda at: target.log_density(ys, inputs, at)
        adapted = {"step_size": step_size, "inverse_mass_matrix": ravel_pytree(mass)[0]}
        return draws(target, log_density, blackjax.nuts.init(start, log_density), key, num_draws, adapted)[1]

    return jax.jit(run)


if __name__ == "__main__":
    serve(nuts_algorithms(compiled, jax.jit(fit, static_argnums=(0, 3, 4)), going_on))
