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

from functools import cache

import jax
import numpy as np
from numpyro.infer import MCMC, NUTS

from benchmarks.contest.models.flat import model_of
from benchmarks.contest.models.log_density import power_of_two, target_of
from benchmarks.contest.task import Algorithm, Task, each_table, moments, serve

FEWEST_WARMUP = 100
FORMS = {"nuts": "marginal", "nuts_centered": "centered", "nuts_noncentered": "noncentered"}


def refit(task: Task):
    """Yield the posterior of a chain of its own for each time."""
    for time in task.times:
        yield from fit(task.until(time))


def fit(task: Task):
    """Yield the posterior given all of the data."""
    target = target_of(task, FORMS[task.algorithm])
    run = compiled(task.problem, task.algorithm, len(task.ys), task.size["num_draws"])
    theta = run(jax.random.key(task.seed), target.ys, target.inputs)
    yield moments({name: np.asarray(values, np.float64) for name, values in theta.items()})


@cache
def compiled(problem: str, algorithm: str, length: int, num_draws: int):
    """Return a compiled chain for data of a length."""
    parameters = model_of(problem).parameters
    target = target_of(Task(problem, np.zeros(0), None, (), algorithm, {}, 0), FORMS[algorithm])

    def run(key, ys, inputs):
        key_start, key_run = jax.random.split(key)
        kernel = NUTS(
            potential_fn=lambda at: -target.log_density(ys, inputs, at),
            dense_mass=[("z",)],  # pyright: ignore[reportArgumentType]
        )
        chain = MCMC(kernel, num_warmup=max(FEWEST_WARMUP, num_draws), num_samples=num_draws, progress_bar=False)
        chain.run(key_run, init_params=target.start(ys, inputs, key_start))
        return jax.vmap(parameters.constrain)(chain.get_samples()["z"])

    return jax.jit(run)


@cache
def warm_start(problem: str, form: str, length: int, num_draws: int):
    """Return a compiled chain that begins where another has ended, with its step and mass matrix and no warm-up."""
    parameters = model_of(problem).parameters
    target = target_of(Task(problem, np.zeros(0), None, (), "", {}, 0), form)

    def run(key, ys, inputs, start, step_size, inverse_mass):
        kernel = NUTS(
            potential_fn=lambda at: -target.log_density(ys, inputs, at),
            step_size=step_size,
            inverse_mass_matrix=inverse_mass,
            dense_mass=[("z",)],  # pyright: ignore[reportArgumentType]
            adapt_step_size=False,
            adapt_mass_matrix=False,
        )
        chain = MCMC(kernel, num_warmup=0, num_samples=num_draws, progress_bar=False)
        chain.run(key, init_params=start)
        return jax.vmap(parameters.constrain)(chain.get_samples()["z"])

    return jax.jit(run)


def keep_up(task: Task):
    """Yield a fit at the first time, and at the others a warm start from it: `padded_` or `unpadded_` and a form."""
    padding, name = task.algorithm.split("_", 1)
    form = FORMS[name]
    length_of = (lambda time: power_of_two(task.times[-1])) if padding == "padded" else (lambda time: time)
    target = target_of(task.until(task.times[0]), form, length_of(task.times[0]))
    num_draws = task.size["num_draws"]
    chain = MCMC(
        NUTS(potential_fn=lambda at: -target.log_density(target.ys, target.inputs, at), dense_mass=[("z",)]),  # pyright: ignore[reportArgumentType]
        num_warmup=max(FEWEST_WARMUP, num_draws), num_samples=num_draws, progress_bar=False,
    )  # fmt: skip
    key = jax.random.key(task.seed)
    chain.run(key, init_params=target.start(target.ys, target.inputs, key))
    last = chain.last_state
    thetas = jax.vmap(model_of(task.problem).parameters.constrain)(chain.get_samples()["z"])
    yield moments({name: np.asarray(values, np.float64) for name, values in thetas.items()})
    for time in task.times[1:]:
        more = target_of(task.until(time), form, length_of(time))
        start = each_table(lambda leaf: leaf, last.z)
        if "states" in start and len(start["states"]) < len(more.ys) + 1:
            extra = len(more.ys) + 1 - len(start["states"])
            start = start | {"states": np.concatenate([start["states"], np.zeros((extra, *start["states"].shape[1:]))])}
        run = warm_start(task.problem, form, len(more.ys), num_draws)
        adapted = last.adapt_state
        theta = run(key, more.ys, more.inputs, start, adapted.step_size, adapted.inverse_mass_matrix)
        yield moments({name: np.asarray(values, np.float64) for name, values in theta.items()})


if __name__ == "__main__":
    going_on = {f"{padding}_{name}": Algorithm(keep_up) for padding in ("padded", "unpadded") for name in FORMS}
    serve({name: Algorithm(refit, refits=True) for name in FORMS} | going_on)
