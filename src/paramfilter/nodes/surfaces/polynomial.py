"""A polynomial through the nodes' log likelihoods: the log likelihood at any theta nearby.

The log likelihood is a smooth function of theta, and its values at the nodes have no noise, so a polynomial of low
degree in the standardised coordinates of the posterior follows it closely. It is fitted by least squares; a node counts
by how probable it is (its error may grow with its distance from the top, in nats). The degree is the one with the
smallest leave-one-out error, which is what the surface misses at a node that it has not seen.

The surface is trusted where it rests on nodes: where its leverage is no larger than at the nodes themselves.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float

from paramfilter.nodes.proposals import normal_of
from paramfilter.nodes.surfaces.base import DEEPEST, REACH, Surface
from paramfilter.polynomials.monomials import MonomialBasis
from paramfilter.tracing import numbers
from paramfilter.types import Numbers

DEGREES = {1: (2, 4, 6, 8), 2: (2, 3, 4, 6)}
USUAL_DEGREES = (2, 3, 4)
"""That are tried, by the number of parameters."""
NODES_PER_TERM = 2.5
NEAR, FAR = 0.02, 0.05
"""Error in nats that is allowed at the top, and what is added for each nat below it."""
CORE = 12.0
"""Nats below the top within which nodes say how far the surface can be trusted."""
RIDGE = 1e-9
LARGEST_LEVERAGE = 0.97
"""Quantile of the leverage over the core's nodes, beyond which a point is outside."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Polynomial(Surface):
    """A fitted polynomial.

    Attributes:
        coefficients: Of all monomials up to the largest degree; 0 above the chosen one.
        inverse: (F'F)^-1 of the weighted fit, for the leverage.
        edge: Leverage up to which the surface is trusted.
    """

    coefficients: Float[Numbers, " coeff"]
    inverse: Float[Numbers, "coeff coeff"]
    edge: Float[Numbers, ""]

    def at(self, z: Float[Numbers, "point param"]) -> tuple[Float[Numbers, " point"], Bool[Numbers, " point"]]:
        terms = self._features(z)
        leverage = numbers(self, z).sum((terms @ self.inverse) * terms, axis=1)
        return self.top + terms @ self.coefficients, leverage <= self.edge

    def shares(
        self, z: Float[Numbers, "point param"], nodes: Float[Numbers, "node param"], is_core: Bool[Numbers, " node"]
    ) -> Float[Numbers, "point node"]:
        xp = numbers(self, z)
        own = self._features(nodes) * is_core[:, None]
        ridge = RIDGE * xp.eye(own.shape[1], dtype=own.dtype)
        return self._features(z) @ xp.linalg.pinv(own.T @ own + ridge) @ own.T

    def _features(self, z: Float[Numbers, "point param"]) -> Float[Numbers, "point coeff"]:
        return features(self.around.standard(z) / REACH, len(self.coefficients))


def fit_polynomial(
    z: Float[Numbers, "node param"],
    log_likelihood: Float[Numbers, " node"],
    log_prior: Float[Numbers, " node"],
    weights: Float[Numbers, " node"],
) -> Polynomial:
    """Fit the log likelihood over weighted nodes."""
    xp = numbers(z, log_likelihood, weights)
    log_posterior = log_prior + log_likelihood
    drop = xp.max(log_posterior) - log_posterior
    around = normal_of(z, weights)
    standard = around.standard(z) / REACH
    top = log_likelihood[xp.argmax(log_posterior)]
    precision = xp.where(drop < DEEPEST, 1 / (NEAR + FAR * drop), 0.0)
    size = num_terms(*z.shape)
    fits = [
        _fit(standard, log_likelihood - top, precision, weights, drop, degree, size) for degree in degrees(*z.shape)
    ]
    best = xp.argmin(xp.stack([fit["misfit"] for fit in fits]))
    chosen: dict[str, Any] = {name: xp.stack([fit[name] for fit in fits])[best] for name in fits[0]}
    return Polynomial(around=around, top=top, best=xp.max(log_posterior), **chosen)


def degrees(num_nodes: int, dimension: int) -> tuple[int, ...]:
    """Return the degrees that so many nodes can carry; a quadratic is always one of them."""
    wanted = DEGREES.get(dimension, USUAL_DEGREES)
    return wanted[:1] + tuple(d for d in wanted[1:] if MonomialBasis(dimension, d).size * NODES_PER_TERM <= num_nodes)


def num_terms(num_nodes: int, dimension: int) -> int:
    """Return the number of monomials of the largest degree."""
    return MonomialBasis(dimension, degrees(num_nodes, dimension)[-1]).size


def _fit(standard: Any, target: Any, precision: Any, weights: Any, drop: Any, degree: int, size: int) -> dict[str, Any]:
    xp = numbers(standard, target)
    own = MonomialBasis(standard.shape[1], degree).size
    terms = features(standard, own)
    rows = terms * precision[:, None]
    gram = rows.T @ rows
    ridge = RIDGE if gram.dtype == np.float64 else 1e3 * RIDGE
    inverse = xp.linalg.inv(gram + ridge * (xp.trace(gram) / own + 1) * xp.eye(own, dtype=gram.dtype))
    coefficients = inverse @ (rows.T @ (precision * target))
    leverage = xp.sum((terms @ inverse) * terms, axis=1)
    left_out = (target - terms @ coefficients) / xp.maximum(1 - leverage * precision**2, 1e-2)
    has_enough = xp.sum(drop < CORE) >= NODES_PER_TERM * own
    misfit = xp.sqrt(xp.sum(weights * left_out**2))
    inner = xp.where(drop < CORE, leverage, xp.nan)
    return {
        "coefficients": xp.pad(coefficients, (0, size - own)),
        "inverse": xp.pad(inverse, ((0, size - own), (0, size - own))),
        "edge": xp.nanquantile(inner, LARGEST_LEVERAGE),
        "misfit": xp.where(has_enough, misfit, xp.inf),
        "left_out": left_out,
    }


def features(u: Float[Numbers, "node param"], size: int) -> Float[Numbers, "node coeff"]:
    """Return the first monomials of u, by degree."""
    xp = numbers(u)
    factors = _factors(u.shape[1], size)
    columns = [xp.ones_like(u[:, 0])]
    for before, variable in factors:
        columns.append(columns[before] * u[:, variable])
    return xp.stack(columns, axis=1)


@functools.cache
def _factors(dimension: int, size: int) -> tuple[tuple[int, int], ...]:
    """Say of each monomial after the first which earlier one it is a multiple of, and of which variable."""
    exponents = next(b for b in (MonomialBasis(dimension, d) for d in range(64)) if b.size == size).exponents
    place = {tuple(row): number for number, row in enumerate(exponents.tolist())}
    found = []
    for row in exponents.tolist()[1:]:
        variable = next(i for i, power in enumerate(row) if power)
        lower = [power - (i == variable) for i, power in enumerate(row)]
        found.append((place[tuple(lower)], variable))
    return tuple(found)
