"""log p(y_{1:T} | theta) where it is exact: a Kalman filter, and a sum over the values of a discrete state.

The sum over all paths of two steps is the same:

>>> import itertools
>>> model, ys = pf.models.regime_switching(), jnp.array([0.3, 1.9])
>>> z = jnp.zeros(5)
>>> theta = model.parameters.constrain(z)
>>> def joint(x0, x1, x2):
...     moves = model.transition_log_prob(theta, x0, x1, None) + model.transition_log_prob(theta, x1, x2, None)
...     looks = model.observation_log_prob(theta, x1, ys[0], None) + model.observation_log_prob(theta, x2, ys[1], None)
...     return model.initial_log_prob(theta, x0, None) + moves + looks
>>> paths = jnp.array(list(itertools.product(range(2), repeat=3)))
>>> total = jnp.sum(jnp.exp(jax.jit(jax.vmap(joint))(*paths.T)))
>>> bool(jnp.allclose(regime_log_likelihood(model, ys)(z), jnp.log(total)))
True
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import paramfilter as pf
from paramfilter.references.kalman import kalman_filter
from paramfilter.references.problem import Problem

LogLikelihood = Callable[[Float[Array, " param"]], Float[Array, ""]]
"""Of theta's coordinates."""


def kalman_log_likelihood(model: pf.StateSpaceModel, ys: np.ndarray) -> LogLikelihood:
    """Return the log likelihood of a model that is linear and Gaussian given theta and reads no inputs."""
    size = model.initial(model.parameters.constrain(jnp.zeros(model.parameters.dimension)), None).shape()
    problem = Problem(model, jnp.asarray(ys), None, None, len(ys), int(np.prod(size)), lambda x: jnp.reshape(x, size))
    return lambda z: kalman_filter(problem, z).log_likelihood


def regime_log_likelihood(model: pf.StateSpaceModel, ys: np.ndarray, num_regimes: int = 2) -> LogLikelihood:
    """Return the log likelihood of a model whose state is 0, 1, ..., num_regimes - 1."""
    regimes = jnp.arange(num_regimes)

    def log_likelihood(z):
        theta = model.parameters.constrain(z)
        moves = jax.vmap(lambda x_prev: jax.vmap(lambda x: model.transition_log_prob(theta, x_prev, x, None))(regimes))(
            regimes
        )
        looks = jax.vmap(lambda y: jax.vmap(lambda x: model.observation_log_prob(theta, x, y, None))(regimes))(
            jnp.asarray(ys)
        )

        def step(log_masses, log_looks):
            return jax.nn.logsumexp(log_masses[:, None] + moves, axis=0) + log_looks, None

        start = jax.vmap(lambda x: model.initial_log_prob(theta, x, None))(regimes)
        return jax.nn.logsumexp(jax.lax.scan(step, start, looks)[0])

    return log_likelihood
