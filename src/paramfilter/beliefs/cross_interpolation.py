"""A belief as values of the log density at a few pivots of theta, found by numbers: any density, any number of
parameters.

With the cross decomposition of `separability.cross`, a datum d says about theta

    a(d, theta) = sum_k a(d, theta_k) P_k(theta),        P(theta) = M^{-1} (a(d_1, theta), ..., a(d_K, theta)),

where theta_k are the pivots and d_m the pivot data, shared by all particles. So the statistic of a particle is the K
sums S_k = sum_t a(d_t, theta_k), an update evaluates the user's log density at the pivots, and the belief at any theta
is the log prior plus S . P(theta). An exactly separable model comes out exact, with K the size of its sufficient
statistic.

**Refresh.** Pivots that were chosen for the prior are far from where the posterior has gone. When the particles' spread
has shrunk or moved enough, new pivots are chosen among points around it, for a reservoir of the particles' own recent
data; the old belief is evaluated at the new pivots. That is exact where the old interpolation was; its error stays in
the belief, and the check points carry it on (see `accuracy`).

**Mixing.** Two beliefs become one by averaging S, and a quadratic beside it (`mixing`) puts the distance between them
back. The density is held to be zero far out then, as for models that are not exactly separable: the quadratic rises.

**Draws.** A quadratic fitted to the belief at points around the particles gives each particle a Student t of its own,
from which `Independence` proposes; refusals are carried on. The fit is linear in the statistic, so that one small
matrix, renewed at each step, serves all particles.

What it costs: K + 1 evaluations of the user's log density for an update, K for each move of a draw. When it lies: where
the data need more than K numbers, such as a global view of Cauchy noise; `approximation_error` shows it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from paramfilter.beliefs.accuracy import CheckPoints, error_over_bulk, star_points
from paramfilter.beliefs.base import Belief, BoundBelief, Draw, Moments, no_outcome, scaled
from paramfilter.beliefs.log_quadratic import LogQuadratic
from paramfilter.beliefs.mean_cholesky import MIN_SPREAD, MeanCholesky, quasi_random_normals, spread_of
from paramfilter.beliefs.mixture_projection import MomentPoints, project_mixture
from paramfilter.beliefs.quadratic_fit import QuadraticFit
from paramfilter.beliefs.reservoir import reservoir_sample
from paramfilter.beliefs.samplers import Chain, Independence, RandomWalk, Region, ThetaSampler
from paramfilter.errors import BeliefError
from paramfilter.inspect.cross import (
    IMPOSSIBLE,
    WIDER_COUNTS,
    CrossTable,
    PriorCross,
    choose_pivots,
    cross_of_prior,
    log_densities,
)
from paramfilter.inspect.dependence import ThetaFactors
from paramfilter.model import StateSpaceModel, Transition

NUM_CANDIDATES = 256
"""Points among which new pivots are chosen."""

NEAR_SPREAD = 1.2
"""Spread of the first half of the candidates, in units of the particles'; the others are wider and count for less."""

MEMORY = 0.8
"""Weight of the past in the running average of the particles' spread."""

GROWTH = 1.5
"""Pivots are renewed when the particles' spread has grown by this factor along some direction."""

PRIOR_REACH = 4.0
"""How much farther than `InterpolationLimits.reach` the belief may go in standard deviations of the prior."""


@dataclass(frozen=True)
class InterpolationLimits:
    """How far an interpolation is trusted: less in float32, whose noise the weights P multiply.

    Attributes:
        wide_spreads: MeanCholesky of the wider candidates in units of the particles'.
        reach: Beyond sqrt(p) plus this many standard deviations of the latest choice of pivots the density is zero.
        exact_reach: The same for a model that is exactly separable: only rounding is to be feared there.
        shrink: Pivots are renewed when the spread has shrunk to this fraction along some direction,
        drift: or its center has moved by this many of its former standard deviations.
        largest_weights: A theta with a larger sum of |P_k| is extrapolated rather than interpolated: density zero as
            well.
        moderate_weights: The same sum, below which a theta may become a pivot.
    """

    wide_spreads: tuple[float, ...]
    reach: float
    exact_reach: float
    shrink: float
    drift: float
    largest_weights: float
    moderate_weights: float


SINGLE = InterpolationLimits(
    (1.5, 2.0), reach=2.5, exact_reach=12.0, shrink=0.6, drift=1.5, largest_weights=300.0, moderate_weights=30.0
)
DOUBLE = InterpolationLimits(
    (2.0, 3.0), reach=6.0, exact_reach=50.0, shrink=0.4, drift=2.0, largest_weights=1e3, moderate_weights=100.0
)

DEFAULT_SAMPLER = Chain((Independence(1), RandomWalk(2)))

NUM_NORMALISER_POINTS = 256


@dataclass(frozen=True)
class CrossInterpolation(Belief):
    """Values of the log density at pivots found by a cross decomposition, for any number of parameters.

    Args:
        num_pivots: K; None for the numerical rank of the model, up to 60 for three parameters or fewer and 96 for
            more.
        sampler: How theta is drawn; None for an independence move and two random-walk moves.
    """

    num_pivots: int | None = None
    sampler: ThetaSampler | None = None

    def bind(self, model: StateSpaceModel) -> BoundBelief:
        """Fit any model."""
        if self.num_pivots is not None and self.num_pivots < 1:
            raise BeliefError(f"CrossInterpolation needs at least one pivot, got {self.num_pivots!r}.")
        return BoundCross(
            model,
            ThetaFactors(model),
            cross_of_prior(model, self.num_pivots),
            self.sampler or DEFAULT_SAMPLER,
            repr(self),
        )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class CrossShared:
    """What all particles have in common.

    Attributes:
        table: Pivots, pivot data and M^{-1}.
        chosen_for: MeanCholesky of the particles when the pivots were chosen; the check points sit on it.
        spread: Present spread of the particles, averaged over the last few steps: one odd datum leaves few particles
            alive, and their spread says nothing.
        fit: Turns a statistic into a Gaussian, around the present spread.
        reservoir: Data seen so far, a sample of fixed size.
        check_weights: P at the check points.
    """

    table: CrossTable
    chosen_for: MeanCholesky
    spread: MeanCholesky
    fit: QuadraticFit
    reservoir: Transition
    check_weights: Float[Array, "check pivot"]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PivotSums:
    """What a particle remembers: S at the pivots, what mixing has put beside it (mixing), the misses at the check
    points (accuracy), and what it began with.

    The bend is in standard coordinates of the latest choice of pivots. `beginning` is (x_0, inputs) if the initial
    distribution depends on theta, and None if not: a single datum of another kind is cheaper to keep than to
    interpolate.
    """

    values: Float[Array, " pivot"]
    bend: LogQuadratic
    misses: Float[Array, " check"]
    beginning: PyTree


@dataclass(frozen=True, eq=False)
class BoundCross(BoundBelief):
    """The belief, fitted to a model."""

    model: StateSpaceModel
    factors: ThetaFactors
    prior_cross: PriorCross
    sampler: ThetaSampler
    name: str

    def init(self):
        bend = LogQuadratic.none(self.model.parameters.dimension)
        return PivotSums(jnp.zeros(self.prior_cross.size), bend, jnp.zeros(self._checks.size), None)

    def init_shared(self, z):
        cast = lambda leaf: jnp.asarray(leaf, float if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf.dtype)
        table = jax.tree.map(cast, self.prior_cross.table)
        prior = MeanCholesky(*(cast(part) for part in self.prior_cross.spread))
        fit = self._quadratic_fit(table, prior, prior, self.init())
        check_weights = jax.vmap(lambda point: self._weights(table, point))(self._check_points(prior))
        reservoir = jax.tree.map(cast, self.prior_cross.data)
        return CrossShared(table, prior, prior, fit, reservoir, check_weights)

    def update_initial(self, shared, statistic, x, inputs):
        if not self.factors.depends.initial:
            return statistic
        return replace(statistic, beginning=(x, inputs))

    def update(self, shared, statistic, datum):
        table = shared.table
        places = jnp.concatenate([table.reference[None], table.pivots, self._check_points(shared.chosen_for)])
        log_likelihoods = jax.vmap(lambda z: self.factors.step(datum, z))(places)
        terms, exact = jnp.split(log_likelihoods[1:] - log_likelihoods[0], [len(table.pivots)])
        terms = jnp.where(jnp.isfinite(terms), terms, -IMPOSSIBLE)
        terms = jnp.where(jnp.isfinite(log_likelihoods[0]), terms, jnp.nan)
        missed = shared.check_weights @ terms - exact
        misses = statistic.misses + jnp.where(jnp.isfinite(missed), missed, 0.0)  # one that is impossible has no weight
        return replace(statistic, values=statistic.values + terms, misses=misses - jnp.mean(misses))

    def discount(self, statistic, factor):
        return replace(scaled(statistic, factor), beginning=statistic.beginning)

    def mix(self, shared, first, second):
        # What x_0 said stays with the first ancestor: one datum of many.
        points = MomentPoints.around(shared.fit.spread, self._moment_features(shared), self.model.parameters.log_prior)
        share, bend = project_mixture(shared.fit, points, _numbers(first), _numbers(second), len(first.values))
        return PivotSums(
            0.5 * share * (first.values + second.values),
            bend.change_coordinates(shared.fit.spread, shared.chosen_for),
            0.5 * (first.misses + second.misses),
            first.beginning,
        )

    def can_mix_now(self, shared):
        # Paths that disagree by many of their own widths have beliefs whose moments the fit cannot see.
        return shared.fit.is_good

    def sample(self, key, shared, statistic, previous):
        region = self._region(shared, statistic)
        return Draw(self.sampler.draw(key, self._log_density(shared, statistic), previous, region).z, no_outcome())

    def moments(self, shared, statistic, z):
        # The particle's own draw: what it adds to the error of N particles is at most one part in N of the variance.
        theta = self.model.parameters.constrain(z)
        return Moments(theta, jax.tree.map(jnp.zeros_like, theta))

    def log_prob(self, shared, statistic, z):
        region = self._region(shared, statistic)
        standard = jnp.asarray(self._normaliser_points, z.dtype)
        log_density = self._log_density(shared, statistic)
        values = jax.vmap(lambda s: log_density(region.mean + region.spread @ s))(standard)
        log_proposal = -0.5 * jnp.sum(standard**2, axis=1) - 0.5 * len(z) * jnp.log(2 * jnp.pi)
        _, log_det = jnp.linalg.slogdet(region.spread)
        log_normaliser = jax.nn.logsumexp(values - log_proposal) - jnp.log(len(standard)) + log_det
        return log_density(z) - log_normaliser

    def error(self, shared, statistic):
        log_density_given = self._log_density_given_weights(shared, statistic)
        log_density = jax.vmap(log_density_given)(self._check_points(shared.chosen_for), shared.check_weights)
        # Check points sit on the population; where paths disagree, a belief is much narrower and may be near none of
        # them. An exactly separable model cannot have gone astray by that.
        return error_over_bulk(statistic.misses, log_density, must_be_near=self.prior_cross.exact_rank is None)

    def adapt(self, shared, statistics, z, log_weights):
        shared, statistics = jax.lax.cond(
            _has_moved(shared.chosen_for, shared.spread, _caution(shared)),
            lambda: self._refreshed(shared, statistics),
            lambda: (shared, statistics),
        )
        weights = jax.nn.softmax(log_weights)
        typical = jax.tree.map(lambda leaf: jnp.tensordot(weights, leaf, 1), replace(statistics, beginning=None))
        fit = self._quadratic_fit(shared.table, shared.chosen_for, shared.spread, typical)
        return replace(shared, fit=fit), statistics

    def observe(self, key, shared, data, z, log_weights, time):
        # The draws as they came from the beliefs, before the datum's weights thin them out.
        now = spread_of(z, jnp.zeros(len(z), z.dtype), self._floor)
        reservoir = reservoir_sample(key, shared.reservoir, data, log_weights, time)
        return replace(shared, reservoir=reservoir, spread=shared.spread.blended(now, MEMORY))

    def _refreshed(self, shared: CrossShared, statistics: PivotSums):
        """Choose pivots around the particles, and re-express all beliefs at them."""
        old, spread = shared.table, shared.spread
        caution = _caution(shared)
        candidates = jax.vmap(spread.unwhiten)(jnp.asarray(self._candidates(caution), spread.mean.dtype))
        old_weights = jax.vmap(lambda point: self._weights(old, point))(jnp.append(candidates, spread.mean[None], 0))
        old_weights, at_mean = old_weights[:-1], old_weights[-1]
        # A new pivot must lie where the old interpolation is good: what it gets wrong there would stay in all beliefs.
        is_held = jnp.sum(jnp.abs(old_weights), axis=1) < caution.moderate_weights
        counts = is_held * jnp.where(jnp.arange(len(candidates)) < NUM_CANDIDATES // 2, 1.0, WIDER_COUNTS)
        size = self.prior_cross.size
        table, chosen = choose_pivots(self.factors, shared.reservoir, candidates, counts, spread.mean, size)
        rows = old_weights[chosen] - at_mean
        rows = jnp.where(jnp.isfinite(rows), rows, 0.0)  # only where all candidates were bad, and have no weight
        values = statistics.values @ rows.T
        old_places, places = self._check_points(shared.chosen_for), self._check_points(spread)
        weights = jax.vmap(lambda point: self._weights(table, point))(jnp.concatenate([old_places, places]))
        at_old_places, check_weights = jnp.split(weights, 2)
        changes = values @ at_old_places.T - statistics.values @ shared.check_weights.T
        changes = jnp.where(jnp.isfinite(changes), changes, 0.0)  # an old check point may be impossible by now
        carried_to = jax.vmap(shared.chosen_for.whiten)(places)
        misses = jax.vmap(lambda one: self._checks.carry(one, carried_to))(statistics.misses + changes)
        bends = jax.vmap(lambda bend: bend.change_coordinates(shared.chosen_for, spread))(statistics.bend)
        renewed = replace(shared, table=table, chosen_for=spread, check_weights=check_weights)
        return renewed, replace(statistics, values=values, bend=bends, misses=misses)

    def _weights(self, table: CrossTable, z: Float[Array, " param"]) -> Float[Array, " pivot"]:
        """Return P(theta), or NaN where theta is impossible."""
        # Both are computed here, so that they are rounded alike: with the second kept from another kernel, an exactly
        # separable model in float32 strayed by 3 nats in 500 steps, and by 0.5 without.
        terms = log_densities(self.factors, table.data, z) - log_densities(self.factors, table.data, table.reference)
        return jnp.where(jnp.all(jnp.abs(terms) < IMPOSSIBLE), table.inverse @ terms, jnp.nan)

    def _log_density(self, shared: CrossShared, statistic: PivotSums):
        given_weights = self._log_density_given_weights(shared, statistic)
        return lambda z: given_weights(z, self._weights(shared.table, z))

    def _log_density_given_weights(self, shared: CrossShared, statistic: PivotSums):
        """Return the log density as a function of theta and P(theta)."""
        dtype, caution = shared.chosen_for.mean.dtype, _caution(shared)
        is_exact = self.prior_cross.exact_rank is not None
        is_bent = jnp.any(statistic.bend.curvature != 0)
        reach = jnp.where(is_bent, caution.reach, caution.exact_reach) if is_exact else caution.reach
        reach += np.sqrt(self.model.parameters.dimension)
        prior = MeanCholesky(*(jnp.asarray(part, dtype) for part in self.prior_cross.spread))

        def log_density(z, weights):
            value = self.model.parameters.log_prior(z) + jnp.dot(statistic.values, weights)
            value += statistic.bend.at(shared.chosen_for.whiten(z))
            if statistic.beginning is not None:
                value += self.factors.initial(z, *statistic.beginning)
            is_held = jnp.sum(shared.chosen_for.whiten(z) ** 2) < reach**2
            if not is_exact:
                is_held &= jnp.sum(jnp.abs(weights)) < caution.largest_weights
                is_held &= jnp.sum(prior.whiten(z) ** 2) < (PRIOR_REACH + reach) ** 2
            return jnp.where(is_held & ~jnp.isnan(value), value, -jnp.inf)

        return log_density

    def _quadratic_fit(
        self, table: CrossTable, chosen_for: MeanCholesky, spread: MeanCholesky, typical: PivotSums
    ) -> QuadraticFit:
        features = lambda z: self._features(table, chosen_for, z)
        return QuadraticFit.around(spread, self.model.parameters.log_prior, features, _numbers(typical))

    def _features(self, table: CrossTable, chosen_for: MeanCholesky, z: Float[Array, " param"]):
        """Return what multiplies the numbers of a belief."""
        return jnp.concatenate([self._weights(table, z), LogQuadratic.features(chosen_for.whiten(z))])

    def _moment_features(self, shared: CrossShared):
        """Return the features as a function of z: NaN where the interpolation is not to be trusted."""

        def features(z):
            rows = self._features(shared.table, shared.chosen_for, z)
            size = jnp.sum(jnp.abs(rows[: self.prior_cross.size]))
            return jnp.where(size < _caution(shared).moderate_weights, rows, jnp.nan)

        return features

    def _region(self, shared: CrossShared, statistic: PivotSums) -> Region:
        mean, spread, whitener = shared.fit.gaussian(_numbers(statistic))
        nowhere = jnp.zeros_like(mean)
        return Region(nowhere, nowhere, mean, spread, whitener)

    def _check_points(self, chosen_for: MeanCholesky) -> Float[Array, "check param"]:
        return jax.vmap(chosen_for.unwhiten)(jnp.asarray(self._checks.places, chosen_for.mean.dtype))

    @cached_property
    def _checks(self) -> CheckPoints:
        return star_points(self.model.parameters.dimension)

    @property
    def _floor(self) -> np.ndarray:
        return MIN_SPREAD * np.linalg.norm(self.prior_cross.spread[1], axis=1)

    def _candidates(self, caution: InterpolationLimits) -> np.ndarray:
        points = quasi_random_normals(NUM_CANDIDATES, self.model.parameters.dimension)
        spreads = np.resize(caution.wide_spreads, NUM_CANDIDATES)
        spreads[: NUM_CANDIDATES // 2] = NEAR_SPREAD
        return points * spreads[:, None]

    @cached_property
    def _normaliser_points(self) -> np.ndarray:
        return quasi_random_normals(NUM_NORMALISER_POINTS, self.model.parameters.dimension)


def _numbers(statistic: PivotSums) -> Float[Array, " coefficient"]:
    """Return all that a log density is linear in, in the order of the quadratic fit."""
    return jnp.concatenate([statistic.values, statistic.bend.coefficients])


def _has_moved(chosen_for: MeanCholesky, spread: MeanCholesky, caution: InterpolationLimits) -> Bool[Array, ""]:
    """Tell whether pivots chosen for one spread no longer suit another."""
    relative = jax.scipy.linalg.solve_triangular(chosen_for.factor, spread.factor, lower=True)
    sizes = jnp.linalg.svd(relative, compute_uv=False)
    drift = jnp.max(jnp.abs(chosen_for.whiten(spread.mean)))
    return (sizes[-1] < caution.shrink) | (sizes[0] > GROWTH) | (drift > caution.drift)


def _caution(shared: CrossShared) -> InterpolationLimits:
    return DOUBLE if shared.spread.mean.dtype == jnp.float64 else SINGLE
