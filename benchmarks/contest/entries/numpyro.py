# /// script
# dependencies = ["paramfilter"]
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
"""NUTS by NumPyro, refitted for each time: `python -m benchmarks.contest enter numpyro`.

Theta alone where the states can be summed out (`nuts`), else theta and all states, written in both usual ways. As many
steps of warm-up as draws, but at least 50; one chain; a dense mass matrix for theta, a diagonal one for the states;
acceptance 0.8, trees up to depth 10: defaults. It begins at a draw of the prior, and the states at what was observed.
Data are arguments of the compiled program, so that data sets of one length share it. For the cost of keeping up, a
chain goes on from the last one's end, step size and mass matrix, on data that are padded to a power of two or not.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
from numpyro.infer import MCMC, NUTS

from benchmarks.contest.models.log_density import Target, nuts_algorithms, target_of
from benchmarks.contest.task import serve


def kernel_of(target: Target, ys: Any, inputs: Any, **adapted: Any) -> NUTS:
    """Return the sampler of a target given data."""
    log_density = lambda at: target.log_density(ys, inputs, at)
    return NUTS(potential_fn=lambda at: -log_density(at), dense_mass=[("z",)], **adapted)  # pyright: ignore[reportArgumentType]


@cache
def compiled(problem: str, form: str, length: int, num_warmup: int, num_draws: int):
    """Return a compiled chain for data of a length."""
    target = target_of(problem, form)

    def run(key, ys, inputs):
        key_start, key_run = jax.random.split(key)
        chain = MCMC(kernel_of(target, ys, inputs), num_warmup=num_warmup, num_samples=num_draws, progress_bar=False)
        chain.run(key_run, init_params=target.start(ys, inputs, key_start))
        return jax.vmap(target.theta)(chain.get_samples()["z"])

    return jax.jit(run)


def begin(target: Target, ys: Any, inputs: Any, num_warmup: int, num_draws: int, key: jax.Array):
    """Return draws of a first fit, its last position, its step size and its inverse mass by name."""
    kernel = kernel_of(target, ys, inputs)
    chain = MCMC(kernel, num_warmup=num_warmup, num_samples=num_draws, progress_bar=False)
    chain.run(key, init_params=target.start(ys, inputs, key))
    last = chain.last_state
    adapted = last.adapt_state
    mass = {name: leaf for (name,), leaf in adapted.inverse_mass_matrix.items()}
    return jax.vmap(target.theta)(chain.get_samples()["z"]), last.z, adapted.step_size, mass


@cache
def going_on(problem: str, form: str, length: int, num_draws: int):
    """Return a compiled chain that begins where another has ended, with its step and mass matrix and no warm-up."""
    target = target_of(problem, form)

    def run(key, ys, inputs, start, step_size, mass):
        adapted = {"step_size": step_size, "inverse_mass_matrix": {(name,): leaf for name, leaf in mass.items()}}
        kernel = kernel_of(target, ys, inputs, **adapted, adapt_step_size=False, adapt_mass_matrix=False)
        chain = MCMC(kernel, num_warmup=0, num_samples=num_draws, progress_bar=False)
        chain.run(key, init_params=start)
        return jax.vmap(target.theta)(chain.get_samples()["z"])

    return jax.jit(run)


if __name__ == "__main__":
    serve(nuts_algorithms(compiled, begin, going_on))
