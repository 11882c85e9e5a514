# /// script
# dependencies = ["paramfilter"]
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
"""NUTS by NumPyro, refitted for each time: `python -m benchmarks.contest enter numpyro`.

Theta alone where the states can be summed out (`nuts`), else theta and all states, written in both usual ways. As many
steps of warm-up as draws, but at least 100; one chain; a dense mass matrix for theta, a diagonal one for the states;
acceptance 0.8, trees up to depth 10: defaults. It begins at a draw of the prior, and the states at what was observed.
Data are arguments of the compiled program, so that data sets of one length share it. For the cost of keeping up, a
chain goes on from the last one's end, step size and mass matrix, on data that are padded to a power of two or not.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import jax
import numpy as np
from numpyro.infer import MCMC, NUTS

from benchmarks.contest.models.log_density import (
    FORMS,
    Target,
    data_of,
    num_warmup,
    of_draws,
    power_of_two,
    refit,
    target_of,
)
from benchmarks.contest.task import Algorithm, Task, serve


def kernel_of(target: Target, ys: Any, inputs: Any, **adapted: Any) -> NUTS:
    """Return the sampler of a target given data."""
    log_density = lambda at: target.log_density(ys, inputs, at)
    return NUTS(potential_fn=lambda at: -log_density(at), dense_mass=[("z",)], **adapted)  # pyright: ignore[reportArgumentType]


@cache
def compiled(problem: str, form: str, length: int, num_draws: int):
    """Return a compiled chain for data of a length."""
    target = target_of(problem, form)

    def run(key, ys, inputs):
        key_start, key_run = jax.random.split(key)
        chain = MCMC(
            kernel_of(target, ys, inputs), num_warmup=num_warmup(num_draws), num_samples=num_draws, progress_bar=False
        )
        chain.run(key_run, init_params=target.start(ys, inputs, key_start))
        return jax.vmap(target.theta)(chain.get_samples()["z"])

    return jax.jit(run)


@cache
def warm_start(problem: str, form: str, length: int, num_draws: int):
    """Return a compiled chain that begins where another has ended, with its step and mass matrix and no warm-up."""
    target = target_of(problem, form)

    def run(key, ys, inputs, start, step_size, inverse_mass):
        adapted = {"step_size": step_size, "inverse_mass_matrix": inverse_mass}
        kernel = kernel_of(target, ys, inputs, **adapted, adapt_step_size=False, adapt_mass_matrix=False)
        chain = MCMC(kernel, num_warmup=0, num_samples=num_draws, progress_bar=False)
        chain.run(key, init_params=start)
        return jax.vmap(target.theta)(chain.get_samples()["z"])

    return jax.jit(run)


def keep_up(task: Task):
    """Yield a fit at the first time, and at the others a warm start from it: `padded_` or `unpadded_` and a form."""
    padding, name = task.algorithm.split("_", 1)
    form, num_draws, key = FORMS[name], task.size["num_draws"], jax.random.key(task.seed)
    length_of = (lambda time: power_of_two(task.times[-1])) if padding == "padded" else (lambda time: time)
    first, *others = task.times
    target, given = target_of(task.problem, form), data_of(task.until(first), length_of(first))
    chain = MCMC(kernel_of(target, *given), num_warmup=num_warmup(num_draws), num_samples=num_draws, progress_bar=False)
    chain.run(key, init_params=target.start(*given, key))
    last = chain.last_state
    yield of_draws(jax.vmap(target.theta)(chain.get_samples()["z"]))
    for time in others:
        ys, inputs = data_of(task.until(time), length_of(time))
        run = warm_start(task.problem, form, len(ys), num_draws)
        adapted = last.adapt_state
        yield of_draws(
            run(key, ys, inputs, lengthened(last.z, len(ys) + 1), adapted.step_size, adapted.inverse_mass_matrix)
        )


def lengthened(position: dict[str, Any], num_states: int) -> dict[str, Any]:
    """Give a position that has states as many of them as there are data; what is new is zero."""
    if "states" not in position:
        return position
    states = position["states"]
    new = np.zeros((num_states - len(states), *states.shape[1:]))
    return position | {"states": np.concatenate([states, new])}


if __name__ == "__main__":
    refits = {name: Algorithm(partial(refit, compiled), refits=True) for name in FORMS}
    going_on = {f"{padding}_{name}": Algorithm(keep_up) for padding in ("padded", "unpadded") for name in FORMS}
    serve(refits | going_on)
