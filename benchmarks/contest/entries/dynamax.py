# /// script
# dependencies = ["dynamax==1.0.3", "paramfilter"]
#
# [tool.contest.unscented]
# problems = ["sin", "star", "ar1", "stochastic_volatility", "pound_dollar", "nutria", "tracking", "epidemic",
#     "rainfall_runoff", "multispecies", "seat_belts", "inflation", "fitzhugh_nagumo", "common_factor"]
# reason = "the noise of the state is not Gaussian"
# ///
"""An unscented filter of the state with the parameters appended: `python -m benchmarks.contest enter dynamax`.

What practitioners do for a quick answer: the state is (x, z, w), where z are the parameters in unconstrained
coordinates and w is the noise of the next move, so that its scale may depend on z. The filter of `dynamax`,
`conditional_moments_gaussian_filter` with its unscented rule, takes means and variances of observations from the model.
z has no noise of its own, as the parameters do not move. A missing value has a variance of 10^6. There is one size.
Scales of noise can hardly be learned this way: their correlation with the observation is zero.
"""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from dynamax.generalized_gaussian_ssm import (
    ParamsGGSSM,
    UKFIntegrals,
    conditional_moments_gaussian_filter,
)

from benchmarks.contest.models.flat import model_of
from benchmarks.contest.task import Algorithm, Task, each_table, moments, serve
from paramfilter.distributions import components
from paramfilter.gaussian import known_gaussian

UNKNOWN = 1e6
JITTER = 1e-9
NUM_DRAWS = 4000
"""Of the Gaussian at the end, to read it on the natural scale."""


@cache
def compiled(problem: str, length: int):
    """Return a compiled filter for data of a length, which gives mean and covariance of z at each time."""
    model = model_of(problem)
    size_z = model.parameters.dimension
    draws = jnp.asarray(model.parameters.prior_draws, float)
    shape = model.initial(model.parameters.constrain(draws[0]), None).shape()
    size_x = int(np.prod(shape))

    def parts(vector):
        x, z, w = jnp.split(vector, (size_x, size_x + size_z))
        return jnp.reshape(x, shape), z, w

    def moved(vector, inputs):
        x, z, w = parts(vector)
        law = known_gaussian(model.transition(model.parameters.constrain(z), x, inputs))
        step = law.scale * w if law.is_diagonal else law.scale @ w
        return jnp.concatenate([law.mean + step, z, jnp.zeros(size_x)])

    def seen(vector, inputs):
        x, z, _ = parts(vector)
        law = components(model.observation(model.parameters.constrain(z), x, inputs))
        return jnp.ravel(law.mean), jnp.ravel(law.variance)

    def first():
        """Return mean and covariance of (x_1 - its noise, z, w): x_0 is not observed, and moves with the first row."""
        thetas = jax.vmap(model.parameters.constrain)(draws)

        def law_at(theta):
            law = known_gaussian(model.initial(theta, None))
            return law.mean, law.covariance

        means, covariances = jax.vmap(law_at)(thetas)
        spread = jnp.mean(covariances, axis=0) + jnp.cov(means.T).reshape(size_x, size_x)
        blocks = [spread, jnp.cov(draws.T).reshape(size_z, size_z), jnp.eye(size_x)]
        mean = jnp.concatenate([jnp.mean(means, axis=0), jnp.mean(draws, axis=0), jnp.zeros(size_x)])
        return mean, jax.scipy.linalg.block_diag(*blocks)

    def run(ys, inputs):
        # The filter sees first and moves then, so a row without observation comes before all others.
        front = lambda leaf: jnp.concatenate([leaf[:1], leaf])
        inputs, flat = jax.tree.map(front, inputs), front(ys.reshape(length, -1)).at[0].set(jnp.nan)
        at = lambda now: jax.tree.map(lambda leaf: leaf[now[0]], inputs)
        is_missing = jnp.isnan(flat)
        mean, covariance = first()
        noise = jnp.concatenate([jnp.full(size_x + size_z, JITTER), jnp.ones(size_x)])
        params = ParamsGGSSM(
            initial_mean=mean,
            initial_covariance=covariance,
            dynamics_function=lambda vector, now: moved(vector, at(now)),
            dynamics_covariance=jnp.diag(noise),
            emission_mean_function=lambda vector, now: jnp.where(is_missing[now[0]], 0.0, seen(vector, at(now))[0]),
            emission_cov_function=lambda vector, now: jnp.diag(
                jnp.where(is_missing[now[0]], UNKNOWN, seen(vector, at(now))[1])
            ),
        )
        places = jnp.arange(length + 1)[:, None]
        found = conditional_moments_gaussian_filter(params, UKFIntegrals(), jnp.nan_to_num(flat), inputs=places)
        place = slice(size_x, size_x + size_z)
        return found.filtered_means[1:, place], found.filtered_covariances[1:, place, place]

    return jax.jit(run), jax.jit(jax.vmap(model.parameters.constrain))


def unscented(task: Task):
    """Yield what the filter believes at each time; it goes through the whole stream once."""
    run, constrain = compiled(task.problem, len(task.ys))
    inputs = each_table(lambda table: jnp.asarray(table, float), task.inputs)
    means, covariances = run(jnp.asarray(task.ys, float), inputs)
    for time in task.times:
        mean, covariance = means[time - 1], covariances[time - 1]
        noise = jax.random.normal(jax.random.key(task.seed), (NUM_DRAWS, len(mean)), mean.dtype)
        values, vectors = np.linalg.eigh(np.asarray(covariance))
        draws = mean + noise @ (vectors * np.sqrt(np.maximum(values, 0))).T
        yield moments({name: np.asarray(value, np.float64) for name, value in constrain(draws).items()})


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    serve({"unscented": Algorithm(unscented)}, giving_up=(np.linalg.LinAlgError,))
