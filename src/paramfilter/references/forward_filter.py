"""A forward filter on a grid of a scalar state, for one value of theta.

    p(x_t | y_{1:t-1}) = sum_i w_i f_{t-1}(x_i) p(x_t | x_i, theta),     f_t(x) ~ p(x | y_{1:t-1}) p(y_t | x, theta)

The grid is uniform in an unconstrained coordinate s of the state (its logarithm if it is positive, itself if it is
real); the weights w are those of the trapezoid rule times dx/ds. The rule converges faster than any power of the
spacing as long as f_t is smooth and has died away at both ends. So the range need only hold the *filtered* states: what
the next observation rules out may fall off.

- x_0 is integrated over its own nodes if it is Gaussian, so that its distribution may be as narrow as one likes.
- The transition matrix is made once (at every step if there are inputs) and stays in the cache: at 128 points a step
  takes 2 microseconds.
- A transition that is narrower than the spacing makes rows that sum to more than one. They are scaled back, which
  keeps the likelihood of such a theta from exploding, and reported as `excess`.

G. Kitagawa, Non-Gaussian state-space modeling of nonstationary time series, JASA 82 (1987).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array, Float

from paramfilter import distributions
from paramfilter.gaussian import gaussian_of
from paramfilter.references.problem import Answer, Problem

NUM_INITIAL_POINTS = 65
INITIAL_DEVIATIONS = 9.0
UNRESOLVED = 1e-3
"""Excess of a row of the transition matrix above which its theta counts as not resolved by the grid."""


def forward_filter(problem: Problem, bijector: Any, s: Float[Array, " node"], z: Float[Array, " param"]) -> Answer:
    """Filter all of ys on a uniform grid of s at one theta."""
    model, to_state = problem.model, problem.to_state
    theta = model.parameters.constrain(z)
    points = bijector(s)
    slopes = jnp.exp(bijector.log_abs_det_jacobian(s, points))
    weights = slopes * jnp.full(s.shape, s[1] - s[0]).at[jnp.array([0, -1])].mul(0.5)

    def move(starts, inputs):
        """Transition densities from each start to each point, and the excess of the worst row."""

        def row(x):
            return _densities(model.transition(theta, to_state(x[None]), inputs), points, to_state)

        return _not_above_one(jax.vmap(row)(starts), weights)

    def absorb(predicted, state, y, inputs):
        log_likelihood, edges, excess = state
        scores = jax.vmap(lambda x: model.observation_log_prob(theta, to_state(x[None]), y, inputs))(points)
        scores = jnp.where(jnp.isnan(scores), -jnp.inf, scores)
        # the largest that counts: a far corner of the grid may fit y well and have no mass
        top = jnp.max(jnp.where(predicted > 0.0, scores, -jnp.inf))
        filtered = predicted * jnp.exp(jnp.minimum(scores - jnp.where(jnp.isfinite(top), top, 0.0), 0.0))
        total = weights @ filtered
        filtered = filtered / jnp.where(total > 0.0, total, 1.0)
        edges = jnp.maximum(edges, (filtered * slopes)[jnp.array([0, -1])])
        return filtered, (log_likelihood + top + jnp.log(total), edges, excess)

    constant = move(points, None) if problem.inputs is None else None

    def step(carry, now):
        filtered, (log_likelihood, edges, excess) = carry
        matrix, excess_now = constant if constant is not None else move(points, now[1])
        state = (log_likelihood, edges, jnp.maximum(excess, excess_now))
        return absorb((weights * filtered) @ matrix, state, *now), None

    starts, shares = _initial_nodes(model.initial(theta, problem.initial_inputs), points, weights, to_state)
    first, rest = _split_time((problem.ys, problem.inputs))
    matrix, excess = move(starts, first[1])
    start = absorb(shares @ matrix, (jnp.zeros(()), jnp.zeros(2), excess), *first)
    (filtered, (log_likelihood, edges, excess)), _ = jax.lax.scan(step, start, rest)
    mean = weights @ (filtered * points)
    variance = weights @ (filtered * (points - mean) ** 2)
    return Answer(log_likelihood, mean[None], variance[None], edges * (s[-1] - s[0]), excess)


def only_leaf(tree: Any) -> Any:
    """Return the one distribution of the tree of a scalar state, without `to_event` wrappers."""
    return distributions.components(jax.tree.leaves(tree, is_leaf=distributions.is_distribution)[0])


def _densities(tree: Any, points: Float[Array, " node"], to_state: Callable) -> Float[Array, " node"]:
    """Return the density of the one distribution of a tree at each point, zero outside its support."""
    support = only_leaf(tree).support

    def density(x):
        value = to_state(x[None])
        inside = jnp.all(support(jax.tree.leaves(value)[0]))
        log_density = distributions.log_prob(tree, value)
        return jnp.where(inside & jnp.isfinite(log_density), jnp.exp(log_density), 0.0)

    return jax.vmap(density)(points)


def _not_above_one(
    rows: Float[Array, "start node"], weights: Float[Array, " node"]
) -> tuple[Float[Array, "start node"], Float[Array, ""]]:
    """Scale rows so that none sums to more than one.

    Less than one is what it should be where mass leaves the range. But if some row has too much, others have too little
    only because their peak falls between two points, and then all are scaled to one.
    """
    sums = rows @ weights
    excess = jnp.maximum(jnp.max(sums) - 1.0, 0.0)
    unresolved = (excess > UNRESOLVED) & (sums > 0.0)
    return rows / jnp.where(unresolved, sums, jnp.maximum(sums, 1.0))[:, None], excess


def _initial_nodes(
    tree: Any, points: Float[Array, " node"], weights: Float[Array, " node"], to_state: Callable
) -> tuple[Float[Array, " start"], Float[Array, " start"]]:
    """Return nodes and weights that integrate over x_0: its own if it is Gaussian or known, the grid's if not."""
    leaf, gaussian = only_leaf(tree), gaussian_of(tree)
    if isinstance(leaf, dist.Delta):
        return jnp.ravel(jnp.asarray(leaf.v, float)), jnp.ones(1)
    if gaussian is None:
        return points, weights * _densities(tree, points, to_state)
    standard = jnp.linspace(-INITIAL_DEVIATIONS, INITIAL_DEVIATIONS, NUM_INITIAL_POINTS)
    shares = jnp.exp(-0.5 * standard**2)
    return gaussian.mean[0] + jnp.ravel(gaussian.scale)[0] * standard, shares / jnp.sum(shares)


def _split_time(tree: Any) -> tuple[Any, Any]:
    return jax.tree.map(lambda leaf: leaf[0], tree), jax.tree.map(lambda leaf: leaf[1:], tree)
