"""The density of theta given the states, p(theta | x_0..x_T), on a grid: exact, and as a belief has it.

The paper calls it the Gibbs density. With the states known, nothing is left but the belief: what it gets wrong here,
no number of particles mends. All is computed in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import logsumexp

import paramfilter as pf
from paramfilter.model import Transition

POINTS_AT_ONCE = 64
"""Of the grid of theta: each holds the log densities of the whole path."""


def simulate_states(
    model: pf.StateSpaceModel, theta: dict[str, Any], seed: int, num_steps: int
) -> Float[np.ndarray, " time"]:
    """Draw x_0..x_T of a scalar state; the seed is that of the key."""
    return np.asarray(pf.simulate(jax.random.key(seed), model, theta, num_steps + 1)[0], np.float64)


def exact_log_densities(
    model: pf.StateSpaceModel,
    xs: Float[np.ndarray, " time"],
    z: Float[np.ndarray, "point param"],
    times: Sequence[int],
) -> Float[np.ndarray, "stop point"]:
    """Return log p(theta | x_0..x_T), up to a constant, at every point and for every T of `times`."""
    with jax.enable_x64(True):
        found = _compiled(model, tuple(times))(jnp.asarray(xs, jnp.float64), jnp.asarray(z, jnp.float64))
        return np.asarray(found).T


@lru_cache(maxsize=16)  # models are compared by identity
def _compiled(model: pf.StateSpaceModel, times: tuple[int, ...]) -> Callable[[Array, Array], Array]:
    """Return the function of path and points, compiled once for all paths of one length."""
    stops = np.asarray(times) - 1

    def at_point(path, point):
        theta = model.parameters.constrain(point)
        terms = jax.vmap(lambda x_prev, x: model.transition_log_prob(theta, x_prev, x, None))(path[:-1], path[1:])
        return model.parameters.log_prior(point) + jnp.cumsum(terms)[stops]

    return jax.jit(lambda path, z: jax.lax.map(lambda one: at_point(path, one), z, batch_size=POINTS_AT_ONCE))


def believed_log_densities(
    belief: pf.particles.Belief,
    model: pf.StateSpaceModel,
    paths: Sequence[Float[np.ndarray, " time"]],
    z: Float[np.ndarray, "point param"],
    times: Sequence[int],
) -> Float[np.ndarray, "path stop point"]:
    """Return the same as the library's own belief has it, for several paths of one length."""
    with jax.enable_x64(True):
        bound, stops = belief.bind(model), np.asarray(times) - 1

        @jax.jit
        def follow(path, points):
            shared = bound.init_shared(jnp.zeros((2, model.parameters.dimension)))

            def absorb(statistic, pair):
                statistic = bound.update(shared, statistic, Transition(pair[0], pair[1], jnp.nan, None))
                return statistic, statistic

            _, all_statistics = jax.lax.scan(absorb, bound.init(), (path[:-1], path[1:]))
            chosen = jax.tree.map(lambda leaf: leaf[stops], all_statistics)
            at_points = lambda statistic: jax.vmap(lambda one: bound.log_prob(shared, statistic, one))(points)
            return jax.lax.map(at_points, chosen)

        return np.stack([np.asarray(follow(jnp.asarray(path), jnp.asarray(z))) for path in paths])


def kl_divergence(log_p: Float[np.ndarray, " point"], log_q: Float[np.ndarray, " point"]) -> float:
    """Return KL(p || q) of two unnormalised log densities on one uniform grid.

    >>> at = np.linspace(-10.0, 10.0, 2001)
    >>> round(kl_divergence(-0.5 * at**2, -0.5 * (at - 0.2) ** 2), 6)  # 0.2^2 / 2
    0.02
    """
    log_p, log_q = log_p - logsumexp(log_p), log_q - logsumexp(log_q)
    p = np.exp(log_p)
    return float(np.sum(p[p > 0] * (log_p - log_q)[p > 0]))


def grid_moments(
    log_density: Float[np.ndarray, " point"], z: Float[np.ndarray, "point param"]
) -> tuple[Float[np.ndarray, " param"], Float[np.ndarray, " param"]]:
    """Return means and standard deviations of an unnormalised log density on a uniform grid."""
    weights = np.exp(log_density - logsumexp(log_density))
    mean = weights @ z
    return mean, np.sqrt(weights @ (z - mean) ** 2)
