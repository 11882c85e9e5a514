"""Draws of theta, weighted by the prior and by a likelihood.

The likelihood comes from a forward filter on a grid of the state, or from a bootstrap filter, whose estimate
is unbiased, so that weights by it are right on average, and only scatter more (M.-N. Tran and others, Importance
sampling squared for Bayesian inference in latent variable models, 2013).

The proposal is a mixture of t kernels around points that another method drew; a first round corrects that method, which
may be short of tails, and a second is what counts (M. West, Approximating posterior distributions by mixtures, JRSS B
55, 1993).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float
from numpyro.distributions import biject_to, constraints

import paramfilter as pf
from benchmarks.answers import Answer, lists, worst
from paramfilter.references import problem as reference_problem
from paramfilter.references.bootstrap import bootstrap_filter
from paramfilter.references.forward_filter import UNRESOLVED, forward_filter
from paramfilter.types import Inputs, KeyArray

Stretch = Callable[[dict[str, Array], int], Float[Array, ""]]
"""From theta and T to the width of theta's first coordinate given the others, which alone it may depend on."""

NUM_STATE_POINTS = 256
NUM_CENTRES = 1000
ROUNDS = (1000, 3000)
"""Weighted draws of each round. The first corrects NUTS, which may be short of tails; the second is what counts."""
FLATTENING = 0.6
"""The last round's centers are draws from posterior^0.6, so that tails are seen."""
KERNEL_SCALE = 0.5
"""Of a kernel around a center, in sds of all centers."""
KERNEL_FREEDOM = 4.0
"""Of a t distribution: its tails are heavier than the posterior's, so that no weight is large."""


@dataclass(frozen=True)
class WeightedDraws:
    """Coordinates of theta, their weights, and what the grid of the state made of each."""

    z: Float[Array, "draw param"]
    weights: Float[Array, " draw"]
    edges: Float[Array, "draw 2"]
    excess: Float[Array, " draw"]


def weighted_draws(
    key: KeyArray,
    model: pf.StateSpaceModel,
    ys: np.ndarray,
    centers: np.ndarray | Float[Array, "draw param"],
    low: float,
    high: float,
    stretch: Stretch,
) -> WeightedDraws:
    """Weigh draws of theta by prior and grid-filter likelihood; they come from kernels around centers.

    Args:
        key: A typed key.
        model: A model with a scalar state.
        ys: The observations.
        centers: Coordinates of theta that are roughly drawn from the posterior.
        low: Lower end of the grid of the state.
        high: Its upper end.
        stretch: The width of theta's first coordinate given the others.
    """
    asked = reference_problem.Problem(model, jnp.asarray(ys), None, None, len(ys), 1, lambda x: x[0])
    s = jnp.linspace(low, high, NUM_STATE_POINTS)

    def score(key, z):
        found = forward_filter(asked, biject_to(constraints.real), s, z)
        return model.parameters.log_prior(z) + found.log_likelihood, found.edges, found.excess

    def width(z):
        return stretch(model.parameters.constrain(z), len(ys))

    pool, weights, (edges, excess) = in_two_rounds(key, centers, width, score)
    return WeightedDraws(pool, weights, edges, excess)


def weighted_by_particles(
    key: KeyArray,
    model: pf.StateSpaceModel,
    ys: np.ndarray,
    inputs: Inputs,
    centers: np.ndarray | Float[Array, "draw param"],
    num_particles: int,
) -> tuple[Float[Array, "draw param"], Float[Array, " draw"]]:
    """Return draws of theta with weights by prior and bootstrap filters, each with random numbers of its own."""
    asked = reference_problem.problem_of(model, ys, inputs, None)

    def score(key, z):
        population = bootstrap_filter(asked, key, jnp.broadcast_to(z, (num_particles, len(z))))
        return (model.parameters.log_prior(z) + population.log_likelihood,)

    pool, weights, _ = in_two_rounds(key, centers, lambda z: jnp.ones(()), score)
    return pool, weights


def in_two_rounds(
    key: KeyArray,
    centers: np.ndarray | Float[Array, "draw param"],
    width: Callable[[Float[Array, " param"]], Float[Array, ""]],
    score: Callable[[KeyArray, Float[Array, " param"]], tuple[Array, ...]],
) -> tuple[Float[Array, "draw param"], Float[Array, " draw"], tuple[Array, ...]]:
    """Return draws, their weights, and what else their score says.

    Args:
        key: A typed key.
        centers: Coordinates of theta that are roughly drawn from the posterior.
        width: Of theta's first coordinate given the others.
        score: From a key and coordinates to the log target, and more.
    """
    key_first, key_last, *keys_score = jax.random.split(key, 4)
    score_all = jax.jit(lambda key, zs: jax.lax.map(lambda both: score(*both), (jax.random.split(key, len(zs)), zs)))
    shares = jnp.full(len(centers), 1.0 / len(centers))
    first, log_proposal = kernel_mixture(key_first, jnp.asarray(centers), shares, width, ROUNDS[0])
    log_target, *_ = score_all(keys_score[0], first)
    flattened = normalised(FLATTENING * log_target - log_proposal)
    pool, log_proposal = kernel_mixture(key_last, first, flattened, width, ROUNDS[1])
    log_target, *others = score_all(keys_score[1], pool)
    return pool, normalised(log_target - log_proposal), tuple(others)


def weighted_summary(model: pf.StateSpaceModel, draws: WeightedDraws) -> Answer:
    """Return moments of weighted draws, their Monte Carlo errors, and how well the grid held the states."""
    weights = np.asarray(draws.weights)
    return {
        "method": "importance sampling, forward filter on a grid of the state",
        **moments_of(model, draws.z, draws.weights),
        "density_at_edges": float(weights @ np.max(np.asarray(draws.edges), axis=1)),
        "unresolved_share": float(np.sum(weights[np.asarray(draws.excess) > UNRESOLVED])),
    }


def moments_of(model: pf.StateSpaceModel, z: Float[Array, "draw param"], weights: Float[Array, " draw"]) -> Answer:
    """Return moments of weighted draws on the natural scale, with their Monte Carlo errors."""
    weights = np.asarray(weights)
    theta = {name: np.asarray(values) for name, values in jax.vmap(model.parameters.constrain)(z).items()}
    mean = {name: weights @ values for name, values in theta.items()}
    sd = {name: np.sqrt(weights @ (values - mean[name]) ** 2) for name, values in theta.items()}
    # the delta method for ratios of sums
    scaled = {name: (theta[name] - mean[name]) / sd[name] for name in theta}
    errors = {name: np.sqrt(weights**2 @ values**2) for name, values in scaled.items()}
    sd_errors = {name: 0.5 * np.sqrt(weights**2 @ (values**2 - 1) ** 2) for name, values in scaled.items()}
    return {
        "mean": lists(mean),
        "sd": lists(sd),
        "standard_error_of_mean": worst(errors),
        "standard_error_of_log_sd": worst(sd_errors),
        "effective_draws": float(1.0 / np.sum(weights**2)),
        "largest_weight": float(np.max(weights)),
    }


def normalised(log_weights: Float[Array, " draw"]) -> Float[Array, " draw"]:
    return jax.nn.softmax(jnp.where(jnp.isnan(log_weights), -jnp.inf, log_weights))


def kernel_mixture(
    key: KeyArray,
    pool: Float[Array, "draw param"],
    weights: Float[Array, " draw"],
    width: Callable[[Float[Array, " param"]], Float[Array, ""]],
    num: int,
) -> tuple[Float[Array, "num param"], Float[Array, " num"]]:
    """Draw from t kernels around weighted points; return the draws and their log density up to a constant.

    The kernels live in coordinates whose first is divided by its width given the others.
    """
    key_centre, key_pick, key_move, key_tail = jax.random.split(key, 4)
    middle, widths = weights @ pool[:, 0], jax.vmap(width)(pool)
    pool = pool.at[:, 0].set((pool[:, 0] - middle) / widths)
    centers = jax.random.choice(key_centre, pool, (NUM_CENTRES,), p=weights)
    factor = KERNEL_SCALE * jnp.linalg.cholesky(jnp.cov(pool, rowvar=False, aweights=weights))
    dimension = pool.shape[1]
    tails = jnp.sqrt(KERNEL_FREEDOM / (2.0 * jax.random.gamma(key_tail, KERNEL_FREEDOM / 2.0, (num, 1))))
    steps = jax.random.normal(key_move, (num, dimension)) * tails
    drawn = jax.random.choice(key_pick, centers, (num,)) + steps @ factor.T

    def log_density(w):
        distances = jnp.sum(jax.scipy.linalg.solve_triangular(factor, (w - centers).T, lower=True) ** 2, axis=0)
        return logsumexp(-0.5 * (KERNEL_FREEDOM + dimension) * jnp.log1p(distances / KERNEL_FREEDOM))

    widths = jax.vmap(width)(drawn)
    z = drawn.at[:, 0].set(middle + drawn[:, 0] * widths)
    return z, jax.lax.map(log_density, drawn) - jnp.log(widths)
