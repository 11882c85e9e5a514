"""A belief whose log density is the log prior plus a polynomial in theta: the paper's approximate Gibbs density.

    log q(z | S) = log p(z) + sum_alpha S_alpha u^alpha,        u = (z - center) / scale

The statistic S has a fixed size, and a datum adds the coefficients of its own (approximate) log density to it.
Working in units of the prior's spread keeps the powers tame, and the sums are compensated: ten million float32 terms
are fine. `TaylorOfMean` and `TaylorOfLogDensity` differ in how they find the coefficients of a datum. One parameter is
drawn exactly, by its distribution function; several by a Metropolis step.

Honesty. (1) A polynomial may grow without bound along some direction; then q has no finite integral. `_is_improper`
looks at the leading behaviour along rays, prior included, at each draw. (2) A series may be used outside its radius:
at a few check points in the bulk of the particles the polynomial is compared with the model's own log density of each
datum, and the accumulated difference is reported (see `accuracy`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from paramfilter.filters import Moments
from paramfilter.gaussian import Gaussian, log_height
from paramfilter.model import StateSpaceModel, Transition
from paramfilter.numerics.compensated import CompensatedSum
from paramfilter.numerics.even_points import normal_points
from paramfilter.outcome import Outcome
from paramfilter.particles.accuracy import CheckPoints, error_over_bulk, star_points
from paramfilter.particles.belief import BoundBelief, Draw
from paramfilter.particles.coordinates import Coordinates
from paramfilter.particles.inverse_cdf import CdfTable, tabulate
from paramfilter.particles.spread import spread_of
from paramfilter.polynomials import MonomialBasis
from paramfilter.types import Inputs, KeyArray, State

TAIL_RADIUS = 1e5
"""How far out, in prior spreads, the leading behaviour is read off."""

OPTIMAL_SCALE = 2.38
"""Times 1/sqrt(p): the step, in units of the spread of a Gaussian, at which Metropolis mixes fastest."""

NUM_RAYS = 64
"""Random directions along which propriety is checked, beside the axes."""

NUM_QUADRATURE_NODES = 512
"""Shared importance points for moments and normalisers in several dimensions."""

QUADRATURE_INFLATION = 1.5
"""Importance points are spread this much wider than the particles, so that no belief is wider than they are."""

NUM_FIXED = 8
"""Check points that stay where the prior is."""

LARGEST_MISS = 1e18
"""Nats at which a miss is cut off."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class CoefficientsAndMisses:
    """What a particle remembers: the polynomial's coefficients, and by how much it misses the model (accuracy)."""

    sum: CompensatedSum
    misses: Float[Array, " check"]

    @property
    def value(self) -> Float[Array, " coeff"]:
        """The coefficients."""
        return self.sum.value


@dataclass(frozen=True, eq=False)
class LogPolynomial(BoundBelief):
    """A bound belief with a log-polynomial density.

    Args:
        model: The model.
        coordinates: Center and scale of u, and the window in which theta is drawn.
        basis: The monomials of the statistic.
        expand: The coefficients of the approximate log density of a datum.
        exact: The model's own log density of a datum at z.
        expand_initial: The coefficients of log p(x_0 | theta), or None if that does not depend on theta.
        is_always_proper: The polynomial is bounded above by construction.
        name: What checkpoints call the belief.
    """

    model: StateSpaceModel
    coordinates: Coordinates
    basis: MonomialBasis
    expand: Callable[[Transition], Float[Array, " coeff"]]
    exact: Callable[[Transition, Float[Array, " param"]], Float[Array, ""]]
    expand_initial: Callable[[State, Inputs], Float[Array, " coeff"]] | None
    is_always_proper: bool
    name: str
    can_forget: ClassVar[bool] = True

    def init(self):
        return CoefficientsAndMisses(
            CompensatedSum.start(jnp.zeros(self.basis.size)), jnp.zeros(self._checks.size + NUM_FIXED)
        )

    def update_initial(self, shared, statistic, x, inputs):
        if self.expand_initial is None:
            return statistic
        coefficients = self.expand_initial(x, inputs)
        return CoefficientsAndMisses(statistic.sum.add(_without_constant(coefficients)), statistic.misses)

    def update(self, shared, statistic, datum):
        coefficients = self.expand(datum)
        exact = jax.vmap(lambda z: self.exact(datum, z))(self._check_points(shared))
        misses = statistic.misses + self._powers_at_checks(shared) @ coefficients - exact
        # A miss beyond all bounds is reported, but must not be mistaken for a statistic that overflowed.
        misses = jnp.clip(jnp.where(jnp.isnan(misses), LARGEST_MISS, misses - misses[0]), -LARGEST_MISS, LARGEST_MISS)
        return CoefficientsAndMisses(statistic.sum.add(_without_constant(coefficients)), misses)

    def error(self, shared, statistic):
        log_prior = jax.vmap(self.model.parameters.log_prior)(self._check_points(shared))
        return error_over_bulk(statistic.misses, log_prior + self._powers_at_checks(shared) @ statistic.value)

    def sample(self, key, shared, statistic, previous):
        coefficients = statistic.value
        if self.basis.dimension == 1:
            table = self._table(coefficients)
            z, at_edge = table.invert(jax.random.uniform(key, dtype=previous.dtype))[None], table.at_edge
        else:
            z, at_edge = metropolis_step(key, self._log_density(coefficients), previous, shared.scale), False
        flags = jnp.where(at_edge, Outcome.BELIEF_AT_WINDOW_EDGE, Outcome.OK)
        if not self.is_always_proper:
            flags = flags | jnp.where(self._is_improper(coefficients), Outcome.BELIEF_IMPROPER, Outcome.OK)
        return Draw(z, flags.astype(jnp.int32))

    def moments(self, shared, statistic, z):
        nodes, log_weights, _ = self._quadrature(shared, statistic.value)
        return Moments.of_points(self.model.parameters, nodes, log_weights)

    def log_prob(self, shared, statistic, z):
        _, _, log_normaliser = self._quadrature(shared, statistic.value)
        return self._log_density(statistic.value)(z) - log_normaliser

    def adapt(self, shared, statistics, z, log_weights):
        spread = spread_of(z, log_weights, self.coordinates.scale)
        size = self._checks.size
        places = shared.standard(self._check_points(spread)[:size])
        moved = jax.vmap(lambda one: self._checks.carry(one[:size], places))(statistics.misses)
        misses = jnp.concatenate([moved, statistics.misses[:, size:]], axis=1)
        return spread, CoefficientsAndMisses(statistics.sum, misses)

    def init_shared(self, z):
        return spread_of(z, jnp.zeros(z.shape[0], z.dtype), self.coordinates.scale)

    @cached_property
    def _checks(self) -> CheckPoints:
        return star_points(self.basis.dimension)

    def _check_points(self, shared: Gaussian) -> Float[Array, "check param"]:
        """Return points that follow the particles, and draws from the prior that stay: a polynomial with a mode where
        there is none takes the particles along, and cannot be caught from among them."""
        moving = shared.at(jnp.asarray(self._checks.places, shared.mean.dtype))
        return jnp.concatenate([moving, jnp.asarray(self.model.parameters.prior_draws[:NUM_FIXED], moving.dtype)])

    def _powers_at_checks(self, shared: Gaussian) -> Float[Array, "check coeff"]:
        """Return the monomials at the check points; all particles have the same, so this is one matrix for all."""
        return jax.vmap(lambda z: self.basis.features(self.coordinates.to_u(z)))(self._check_points(shared))

    def _log_density(self, coefficients):
        def log_density(z):
            return self.model.parameters.log_prior(z) + self.basis.evaluate(coefficients, self.coordinates.to_u(z))

        return log_density

    def _table(self, coefficients: Float[Array, " coeff"]) -> CdfTable:
        """Return the table of a density of one parameter."""
        low, high = self.coordinates.window
        return tabulate(self._log_density(coefficients), jnp.asarray(low, float), jnp.asarray(high, float))

    def _quadrature(self, shared: Gaussian, coefficients):
        """Return nodes, log weights of the normalised belief at them, and its log normaliser."""
        if self.basis.dimension == 1:
            table = self._table(coefficients)
            return table.points[:, None], jnp.log(table.weights), table.log_normaliser
        wide = Gaussian(shared.mean, QUADRATURE_INFLATION * shared.scale)
        standard = jnp.asarray(normal_points(NUM_QUADRATURE_NODES, self.basis.dimension), shared.mean.dtype)
        nodes = wide.at(standard)
        log_proposal = log_height(wide.scale) - 0.5 * jnp.sum(standard**2, axis=1)
        log_ratio = jax.vmap(self._log_density(coefficients))(nodes) - log_proposal
        log_total = jax.nn.logsumexp(log_ratio)
        return nodes, log_ratio - log_total, log_total - jnp.log(len(nodes))

    @cached_property
    def _rays(self) -> np.ndarray:
        axes = np.eye(self.basis.dimension)
        if self.basis.dimension == 1:
            return np.concatenate([axes, -axes])
        normals = normal_points(NUM_RAYS, self.basis.dimension)
        return np.concatenate([axes, -axes, normals / np.linalg.norm(normals, axis=1, keepdims=True)])

    def _is_improper(self, coefficients: Float[Array, " coeff"]) -> Bool[Array, ""]:
        """Tell whether log q is positive far out on some ray; terms are compared as logarithms, so none overflows."""
        log_powers = jnp.arange(self.basis.degree + 1) * jnp.log(jnp.asarray(TAIL_RADIUS, coefficients.dtype))

        def rises(ray):
            prior = self.model.parameters.log_prior(self.coordinates.to_z(TAIL_RADIUS * ray))
            terms = jnp.append(self.basis.homogeneous_parts(coefficients, ray), prior)
            log_sizes = jnp.log(jnp.abs(terms)) + jnp.append(log_powers, 0.0)
            largest = jnp.max(log_sizes)
            total = jnp.sum(jnp.sign(terms) * jnp.exp(log_sizes - largest))
            # A prior of density zero out there wins over any polynomial.
            return (total > 0) & jnp.isfinite(prior)

        return jnp.any(jax.vmap(rises)(jnp.asarray(self._rays, coefficients.dtype)))


def metropolis_step(
    key: KeyArray,
    log_density: Callable[[Float[Array, " param"]], Float[Array, ""]],
    here: Float[Array, " param"],
    factor: Float[Array, "param param"],
) -> Float[Array, " param"]:
    """Take one random-walk step from the particle's previous theta: the paper's recipe for two parameters (its STAR).

    The proposal has the shape of the particles' spread, times 2.38 / sqrt(p) (Roberts, Gelman and Gilks 1997). A step
    leaves the belief invariant but is not a draw from it: the chain lags behind a belief that moves.
    """
    key_step, key_accept = jax.random.split(key)
    there = here + OPTIMAL_SCALE / len(here) ** 0.5 * factor @ jax.random.normal(key_step, here.shape, here.dtype)
    value, new_value = log_density(here), log_density(there)
    wins = jnp.log(jax.random.uniform(key_accept, dtype=here.dtype)) < new_value - value
    # A start of density zero accepts any proposal of positive density; NaN never wins.
    return jnp.where(jnp.where(jnp.isfinite(value), wins, new_value > -jnp.inf), there, here)


def _without_constant(coefficients: Float[Array, " coeff"]) -> Float[Array, " coeff"]:
    """Drop the constant: it cancels in every use, and a large one would cost digits."""
    return coefficients.at[0].set(0.0)
