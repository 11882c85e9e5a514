"""A Gaussian belief, projected by moment matching after each datum: the assumed parameter filter.

In the unconstrained coordinates z a particle believes N(m, L L^T). A datum with log density l(z) turns it into

    N(z; m, L L^T) exp(l(z)) / Z,

which is no Gaussian. The Gaussian with the same mean and covariance takes its place, and all else is forgotten:

1. nodes z_k = m + L s_k with weights w_k, exact for polynomials of degree 5 or more under N(0, I);
2. W_k = w_k exp(l(z_k)) / Z;
3. in standard coordinates mean a = sum_k W_k s_k and covariance R R^T = sum_k W_k (s_k - a)(s_k - a)^T;
4. m becomes m + L a, and L becomes L R.

A datum that is sharper than the nodes can resolve is taken in by parts: exp(c l) with c < 1, until the whole of it is
in. Otherwise all weight would fall on one node, and the belief would collapse onto it.

What it costs: for one parameter `num_points` evaluations of the user's log density, for two their square, for three,
four and five 64, 81 and 243, for more 2^p + 2p. When it lies: each rule is exact for polynomials, which a likelihood is
not: `num_points` mends that for one and two parameters, but the rule for more than five is coarse (see `GRID_POINTS`),
even where the posterior is Gaussian. And what is not Gaussian about the belief is projected away at the moment when it
matters most, in the first few steps, and no later datum brings it back. On SIN this freezes an error of about 0.6
posterior standard deviations in, whatever the number of nodes. `approximation_error` shows it; a prior that is not
Gaussian in z counts as an error from the start.

Reference: Erol, Wu, Li and Russell, A nearly-black-box online algorithm for joint parameter and state estimation in
    temporal models, AAAI 2017.

>>> import jax, jax.numpy as jnp
>>> from paramfilter import models
>>> from paramfilter.model import Transition
>>> belief = MomentMatched().bind(models.sin())
>>> datum = Transition(jnp.array(2.0), jnp.array(0.9), jnp.array(0.9), None)
>>> after = belief.update(None, belief.init(), datum)
>>> [round(float(number), 2) for number in (after.mean[0], after.factor[0, 0])]
[0.06, 0.19]
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from paramfilter.beliefs.accuracy import REACH, error_over_bulk
from paramfilter.beliefs.base import Belief, BoundBelief, Draw, LikelihoodBelief, Moments, no_outcome
from paramfilter.errors import BeliefError
from paramfilter.gaussian import gaussian_of
from paramfilter.inspect.dependence import ThetaFactors
from paramfilter.model import StateSpaceModel
from paramfilter.numerics.small_matrices import cholesky, inverse_of_lower, solve_lower
from paramfilter.numerics.weights import weighted_mean_and_variance
from paramfilter.parameters import Parameters

FEWEST_POINTS = 3
"""Nodes a coordinate below which a variance cannot be matched: two are exact for degree 3 only."""

MOST_PARAMETERS = 10
"""Coordinates above which 2^p nodes are too many."""

GRID_POINTS = {3: 4, 4: 3, 5: 3}
"""Most nodes a coordinate on a full grid, by the number of parameters. On one regression with p = 3 and 60 data, 3, 4
and 5 nodes a coordinate miss the exact mean by 0.007, 0.0002 and 0.00001 posterior standard deviations; the axes and
corners that serve for more parameters miss it by 0.1."""

SHARP = 1.0
"""Nats (standard deviation of l over the belief) above which a datum is taken in by parts: a curvature of 1.4 belief
precisions, or a pull of one standard deviation."""

MOST_PARTS = 40
"""Parts a datum may be cut into; the last takes what is left. Each can more than double the precision."""

CHECKS = 5
"""Check points a coordinate, for one or two parameters."""

MISS_DEGREE = {1: 4, 2: 4}
MISS_DEGREE_OF_MANY = 3
"""Degree of the polynomial that carries the misses, by the number of parameters. What moment matching throws away
begins with degree 3, and comes back as a shift of the mean when the belief moves on: a quadratic would not see it."""

LARGEST_MISS = 1e6
"""Nats at which a miss is cut off: a check point that is impossible is reported, but is no overflow."""


@dataclass(frozen=True)
class MomentMatched(Belief):
    """A Gaussian in the unconstrained coordinates, matched to mean and covariance after each datum.

    Args:
        num_points: Gauss-Hermite nodes a coordinate, for one or two parameters; three, four and five parameters have
            at most 4, 3 and 3, and more have a rule of their own.
    """

    num_points: int = 7

    def bind(self, model: StateSpaceModel) -> BoundBelief:
        """Fit any model with up to ten unconstrained coordinates."""
        dimension = model.parameters.dimension
        if self.num_points < FEWEST_POINTS:
            raise BeliefError(f"MomentMatched needs at least {FEWEST_POINTS} points, got {self.num_points!r}.")
        if dimension > MOST_PARAMETERS:
            raise BeliefError(
                f"MomentMatched holds up to {MOST_PARAMETERS} parameters, but this model has {dimension}; use "
                "CrossInterpolation()."
            )
        is_on_grid = dimension <= max(GRID_POINTS)
        num_points = min(self.num_points, GRID_POINTS.get(dimension, self.num_points))
        rule = _on_grid(dimension, num_points) if is_on_grid else _on_axes_and_corners(dimension)
        return BoundMomentMatched(model, ThetaFactors(model), _prior_gaussian(model.parameters), rule, repr(self))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class AssumedGaussian:
    """What a particle remembers: mean and lower Cholesky factor, and the misses at the check points (accuracy)."""

    mean: Float[Array, " param"]
    factor: Float[Array, "param param"]
    misses: Float[Array, " check"]


@dataclass(frozen=True, eq=False)
class BoundMomentMatched(LikelihoodBelief):
    """The belief, fitted to a model.

    Args:
        model: The model.
        factors: The parts of its log density that depend on theta.
        prior: Mean and lower Cholesky factor of the prior in z.
        rule: Nodes and positive weights for the standard normal distribution.
        name: What checkpoints call the belief.
    """

    model: StateSpaceModel
    factors: ThetaFactors
    prior: tuple[np.ndarray, np.ndarray]
    rule: tuple[np.ndarray, np.ndarray]
    name: str

    def init(self):
        mean, factor = (jnp.asarray(part, float) for part in self.prior)
        places = jnp.asarray(self._checks.places, float)
        misses = _log_standard(places) - jax.vmap(self.model.parameters.log_prior)(mean + places @ factor.T)
        return AssumedGaussian(mean, factor, _bounded(misses))

    def discount(self, statistic, factor):
        first, dtype = self.init(), statistic.mean.dtype
        precisions = [
            weight * root.T @ root
            for weight, root in (
                (factor, inverse_of_lower(statistic.factor)),
                (1 - factor, inverse_of_lower(first.factor)),
            )
        ]
        precision = precisions[0] + precisions[1]
        root = inverse_of_lower(cholesky(precision))
        mean = root.T @ (root @ (precisions[0] @ statistic.mean + precisions[1] @ first.mean))
        misses = factor * statistic.misses + (1 - factor) * first.misses
        return AssumedGaussian(mean, cholesky(root.T @ root), misses.astype(dtype))

    def sample(self, key, shared, statistic, previous):
        normals = jax.random.normal(key, previous.shape, previous.dtype)
        return Draw(statistic.mean + statistic.factor @ normals, no_outcome())

    def moments(self, shared, statistic, z):
        nodes, weights = self._nodes(statistic)
        return Moments.of_points(self.model.parameters, nodes, jnp.log(weights))

    def log_prob(self, shared, statistic, z):
        standard = solve_lower(statistic.factor, z - statistic.mean)
        log_volume = jnp.sum(jnp.log(jnp.diagonal(statistic.factor)))
        return _log_standard(standard) - 0.5 * len(z) * jnp.log(2 * jnp.pi) - log_volume

    def error(self, shared, statistic):
        return error_over_bulk(statistic.misses, jnp.log(jnp.asarray(self._checks.weights, statistic.misses.dtype)))

    def learn(self, statistic: AssumedGaussian, log_likelihood: Callable) -> AssumedGaussian:
        """Take a datum in, whole or by parts."""

        def look(before: AssumedGaussian):
            nodes, weights = self._nodes(before)
            terms = jax.vmap(log_likelihood)(nodes)
            return terms, _deviation(weights, terms)

        def is_left(carry):
            return carry[1] > 0

        def take_part(carry):
            before, left, num_parts = carry
            terms, deviation = look(before)
            is_last = (deviation * left <= SHARP) | (num_parts + 1 >= MOST_PARTS)
            share = jnp.where(is_last, left, SHARP / jnp.maximum(deviation, SHARP))
            after = self._projected(before, log_likelihood, terms, share)
            return after, jnp.where(is_last, 0.0, left - share), num_parts + 1

        one = jnp.ones((), statistic.mean.dtype)
        after, _, _ = jax.lax.while_loop(is_left, take_part, (statistic, one, jnp.int32(0)))
        return after

    def _projected(self, before: AssumedGaussian, log_likelihood: Callable, terms, share) -> AssumedGaussian:
        """Match the moments after a share of the datum, whose log density at the nodes is `terms`."""
        dtype = before.mean.dtype
        standard, weights = (jnp.asarray(part, dtype) for part in self.rule)
        scores = jnp.where(jnp.isfinite(terms), share * terms, -jnp.inf)
        matched = jax.nn.softmax(jnp.log(weights) + scores)
        mean = matched @ standard
        centerd = standard - mean
        factor = cholesky((matched[:, None] * centerd).T @ centerd)
        # A covariance that cannot be factored tells nothing; the belief stays, and the misses say what it left out.
        is_proper = jnp.all(jnp.isfinite(factor)) & jnp.all(jnp.isfinite(mean)) & jnp.all(jnp.diagonal(factor) > 0)
        mean = jnp.where(is_proper, mean, 0.0)
        factor = jnp.where(is_proper, factor, jnp.eye(len(mean), dtype=dtype))

        checks = jnp.asarray(self._checks.places, dtype)
        places = mean + checks @ factor.T  # the new check points in the old standard coordinates
        exact = share * jax.vmap(log_likelihood)(before.mean + places @ before.factor.T)
        gains = _log_standard(checks) - _log_standard(places) - exact
        misses = _bounded(self._checks.carry(before.misses, places) + gains)
        after = AssumedGaussian(before.mean + before.factor @ mean, before.factor @ factor, misses)
        # A datum that is possible nowhere is none: NaN makes the loop leave it out, and say so.
        is_possible = jnp.any(jnp.isfinite(terms))
        return replace(after, misses=jnp.where(is_possible, after.misses, jnp.nan))

    def _nodes(self, statistic: AssumedGaussian) -> tuple[Float[Array, "node param"], Float[Array, " node"]]:
        standard, weights = (jnp.asarray(part, statistic.mean.dtype) for part in self.rule)
        return statistic.mean + standard @ statistic.factor.T, weights

    @cached_property
    def _checks(self) -> _Checks:
        dimension = self.model.parameters.dimension
        if dimension in MISS_DEGREE:
            return _Checks(*_on_grid(dimension, CHECKS), MISS_DEGREE[dimension])
        return _Checks(*_on_axes_and_corners(dimension), MISS_DEGREE_OF_MANY)


@dataclass(frozen=True, eq=False)
class _Checks:
    """Where the belief is checked, in its own standard coordinates: nodes with weights, so its error is an integral.

    Args:
        places: The nodes.
        weights: Their weights under the belief.
        degree: Total degree of the polynomial through the misses.
    """

    places: np.ndarray
    weights: np.ndarray
    degree: int

    def carry(self, misses: Float[Array, " check"], places: Float[Array, "check param"]) -> Float[Array, " check"]:
        """Return the misses at new points, given where those lie in the old coordinates."""
        reach = REACH * float(np.max(np.abs(self.places)))
        powers = _powers(jnp.clip(places, -reach, reach), self.degree)
        return jnp.asarray(powers) @ (jnp.asarray(self._fit, misses.dtype) @ misses)

    @cached_property
    def _fit(self) -> np.ndarray:
        return np.linalg.pinv(_powers(np.asarray(self.places, np.float64), self.degree))


def _powers(points, degree: int):
    """Return all monomials up to a total degree, as columns."""
    library = np if isinstance(points, np.ndarray) else jnp
    columns = [library.ones(len(points), points.dtype)]
    for size in range(1, degree + 1):
        for chosen in itertools.combinations_with_replacement(range(points.shape[1]), size):
            columns.append(library.prod(points[:, list(chosen)], axis=1))
    return library.stack(columns, axis=1)


def _prior_gaussian(parameters: Parameters) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and Cholesky factor of the prior: exact where it is Gaussian in z, else those of draws."""
    gaussian = gaussian_of([parameters.prior[name] for name in parameters.names])
    if parameters.joint is not None:
        mean, covariance = parameters.joint.mean, parameters.joint.covariance
    elif gaussian is not None:
        mean, covariance = np.asarray(gaussian.mean, np.float64), np.asarray(gaussian.covariance, np.float64)
    else:
        mean = np.mean(parameters.prior_draws, axis=0)
        covariance = np.atleast_2d(np.cov(parameters.prior_draws, rowvar=False))
    return mean, np.linalg.cholesky(covariance)


def _on_grid(dimension: int, num_points: int) -> tuple[np.ndarray, np.ndarray]:
    """Return Gauss-Hermite nodes in each coordinate, and their weights under the standard normal distribution."""
    points, weights = np.polynomial.hermite_e.hermegauss(num_points)
    nodes = np.array(list(itertools.product(points, repeat=dimension)))
    products = np.array([np.prod(part) for part in itertools.product(weights, repeat=dimension)])
    return nodes, products / np.sum(products)


def _on_axes_and_corners(dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """Return fewer nodes for p > 2: exact for degree 5, with positive weights.

    The 2p + 1 points of the unscented transform lie on the axes, where no product of two coordinates can be seen, and a
    regression lives on those. So the corners of a cube join the axes (Stroud, Approximate calculation of multiple
    integrals, 1971, rule 5-3 for the whole space with weight exp(-r^2)).
    """
    axes = np.sqrt((dimension + 2) / 2) * np.concatenate([np.eye(dimension), -np.eye(dimension)])
    corners = np.array(list(itertools.product((-1.0, 1.0), repeat=dimension)))
    corners *= np.sqrt((dimension + 2) / (dimension - 2))
    shares = np.array([4.0, (dimension - 2) ** 2 / len(corners)]) / (dimension + 2) ** 2
    return np.concatenate([axes, corners]), np.repeat(shares, [len(axes), len(corners)])


def _log_standard(points: Float[Array, "*check param"]) -> Float[Array, "*check"]:
    """Return the standard normal log density, without its constant."""
    return -0.5 * jnp.sum(points**2, axis=-1)


def _deviation(weights: Float[Array, " node"], terms: Float[Array, " node"]) -> Float[Array, ""]:
    """Return the standard deviation of the possible terms."""
    _, variance = weighted_mean_and_variance(jnp.where(jnp.isfinite(terms), jnp.log(weights), -jnp.inf), terms)
    return jnp.sqrt(variance)


def _bounded(misses: Float[Array, " check"]) -> Float[Array, " check"]:
    """Center the misses, whose constant means nothing, and cut them off."""
    known = jnp.where(jnp.isnan(misses), LARGEST_MISS, jnp.clip(misses, -LARGEST_MISS, LARGEST_MISS))
    return known - jnp.mean(known)
