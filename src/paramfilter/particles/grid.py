"""A belief as values of the log density on one grid that all particles share: any density, one or two parameters.

The statistic of a particle is a row of numbers, up to a constant,

    S_k = log p(theta_k) + sum_t log p(x_t | x_{t-1}, theta_k) + log p(y_t | x_t, theta_k),

at the points theta_k of a uniform grid in unconstrained coordinates; of two parameters, at all pairs of points. A datum
adds the user's own log density at the points. No derivative is taken, and the numbers stay small, so float32 is enough.
Sums over the points are as accurate as integrals once the spacing is below one standard deviation of the belief.

**The grid moves** when the mean density of all particles has become much narrower than the grid, or reaches its ends.
It moves *before* a datum is absorbed, as often as it takes: one large Cauchy state can narrow all beliefs a
hundredfold. Local polynomials give the new values, the prior is put back exactly, and beyond the ends the log
likelihood goes on as a straight line. Each row has a copy of the grid's place, so that a particle which is put back
to an earlier row can be read; the next datum brings all rows to one grid.

**Mixtures** over ancestors are sums of rows, whatever their shape: on one grid there is nothing to interpolate.

What it costs: one evaluation of the user's log density for each point and each update. When it lies: where beliefs of
particles are narrower than the spacing, as when paths disagree by many of their widths; `approximation_error` shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from paramfilter.errors import BeliefError
from paramfilter.filters import Moments
from paramfilter.inspect.dependence import ThetaFactors, probe_data
from paramfilter.model import StateSpaceModel, Transition
from paramfilter.numerics.sparse import sparse_cond
from paramfilter.outcome import Outcome
from paramfilter.particles.belief import Belief, BoundBelief, Draw
from paramfilter.particles.coordinates import prior_hull
from paramfilter.particles.inverse_cdf import tabulate_values
from paramfilter.polynomials import FEWEST_POINTS, interpolated, misses_between

VALUES_OF_TWO = 49
"""Points a coordinate, of two."""

SIZES_TO_TRY = (33, 65, 129)
CALM = 1e-4
"""Interpolation error of one datum over the prior's bulk, in nats, at which a grid of one coordinate is fine enough."""

NUM_TYPICAL = 64
"""Data at which that error is looked for."""

DEPTH = 12.0
"""Nats below the peak of the mean density at which the grid ends: a relative mass of about 1e-6."""

EDGE_DEPTH = 6.0
"""The grid is widened where the mean density at its end is within this many nats of its peak."""

WIDENING = 0.25
SHRINK = 0.6
"""By which part of its width the grid grows at an end, and the part to which it can shrink before it does."""

MAX_LOOKS = 12
"""How many grids are tried for one datum; each has down to half the width of the one before, or less."""

FLOOR = 200.0
"""Nats below its peak at which a row is cut off: what is impossible is as good as that."""

OVERSHOOT = 0.5
"""Nats by which a polynomial may rise above the six values it goes through: more is a ripple at a jump."""

CUT_OFF = 3.0
"""A belief that is still within this many nats of its peak at the end of the grid has lost mass that matters."""

ALONE = 0.9
"""Share of the mass in single points above which the spacing does not resolve a belief."""

SPIKE = 0.1 / 64
"""Nats missed between the points above which the mean density may have a peak as narrow as the spacing."""

MOST = 0.75
"""Share of the mass that has to be near such a peak before the grid narrows around it."""


@dataclass(frozen=True)
class Grid(Belief):
    """Values of the log density on a grid shared by all particles, for one or two parameters.

    Args:
        num_values: Points a coordinate; None for 49 with two parameters, and with one for the first of 33, 65 and 129
            at which interpolation misses at most 1e-4 nats of a datum.
    """

    num_values: int | None = None

    def bind(self, model: StateSpaceModel) -> BoundBelief:
        """Fit any model with one or two unconstrained coordinates."""
        dimension, size = model.parameters.dimension, self.num_values
        if dimension > 2:
            raise BeliefError(
                f"Grid holds one or two parameters, but this model has {dimension}; use pf.auto_filter(model)."
            )
        if size is None:
            size = VALUES_OF_TWO if dimension == 2 else fine_enough(model)
        if size < FEWEST_POINTS:
            raise BeliefError(f"Grid needs num_values of at least {FEWEST_POINTS}, got {self.num_values!r}.")
        return BoundGrid(model, ThetaFactors(model), size, prior_hull(model.parameters, DEPTH), f"Grid({size})")


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Place:
    """Where a grid lies."""

    center: Float[Array, " param"]
    half_width: Float[Array, " param"]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class GridRow:
    """What a particle remembers: the log density at the points of the grid, where that lies, and the error in nats
    that earlier moves of the grid have left."""

    place: Place
    values: Float[Array, "..."]
    error: Float[Array, ""]


@dataclass(frozen=True, eq=False)
class BoundGrid(BoundBelief):
    """The belief, fitted to a model; `size` is the number of points a coordinate."""

    model: StateSpaceModel
    factors: ThetaFactors
    size: int
    hull: tuple[np.ndarray, np.ndarray]
    name: str
    can_forget: ClassVar[bool] = True
    can_mix: ClassVar[bool] = True

    def init(self):
        low, high = (jnp.asarray(corner, float) for corner in self.hull)
        place = Place((low + high) / 2, (high - low) / 2)
        return GridRow(place, _settled(self._log_prior(place)), jnp.zeros(()))

    def update_initial(self, shared, statistic, x, inputs):
        if not self.factors.depends.initial:
            return statistic
        terms = jax.vmap(lambda z: self.factors.initial(z, x, inputs))(self._points(statistic.place))
        return replace(statistic, values=_settled(statistic.values + terms.reshape(self._shape)))

    def update(self, shared, statistic, datum):
        statistics, x_prev, x = jax.tree.map(lambda leaf: leaf[None], (statistic, datum.x_prev, datum.x))
        updated = self.update_all(shared, statistics, replace(datum, x_prev=x_prev, x=x))
        return jax.tree.map(lambda leaf: leaf[0], updated)

    def update_all(self, shared, statistics, data):
        def update(rows: GridRow, points):
            def terms(x_prev, x):
                datum = Transition(x_prev, x, data.y, data.inputs)
                return jax.vmap(lambda z: self.factors.step(datum, z))(points).reshape(self._shape)

            return rows.values + jax.vmap(terms)(data.x_prev, data.x), rows.error

        return self._on_best_grid(statistics, update, len(statistics.error))

    def update_from_ancestors(self, shared, statistics, data, ancestors):
        def update(rows: GridRow, points):
            flat = rows.values.reshape(len(rows.error), -1)
            log_beliefs = flat - jax.nn.logsumexp(flat, axis=1, keepdims=True)

            def mixture(x, own):
                def from_one(x_prev):
                    datum = Transition(x_prev, x, data.y, data.inputs)
                    return jax.vmap(lambda z: self.factors.transition(datum, z))(points)

                origins = jax.tree.map(lambda leaf: leaf[own], data.x_prev)
                parts = jax.lax.optimization_barrier(log_beliefs[own] + jax.vmap(from_one)(origins))
                seen = jax.vmap(lambda z: self.factors.observation(Transition(None, x, data.y, data.inputs), z))(points)
                shares = jax.nn.softmax(jax.nn.logsumexp(parts, axis=1))
                error = jnp.sqrt(jnp.sum(shares * rows.error[own] ** 2))
                return (jax.nn.logsumexp(parts, axis=0) + seen).reshape(self._shape), error

            return jax.vmap(mixture)(data.x, ancestors)

        return self._on_best_grid(statistics, update, len(ancestors))

    def discount(self, statistic, factor):
        values = factor * statistic.values + (1 - factor) * self._log_prior(statistic.place)
        return replace(statistic, values=_settled(values), error=factor * statistic.error)

    def sample(self, key, shared, statistic, previous):
        values, places = statistic.values, jnp.arange(self.size, dtype=previous.dtype)
        uniforms = jax.random.uniform(key, (self._dimension,), previous.dtype)
        if self._dimension == 1:
            cells = tabulate_values(places, values).invert(uniforms[0])[None]
        else:
            # The marginal of the first coordinate, then the second given the first.
            first = tabulate_values(places, jax.nn.logsumexp(values, axis=1)).invert(uniforms[0])
            cell = jnp.clip(first.astype(jnp.int32), 0, self.size - 2)
            row = values[cell] + (first - cell) * (values[cell + 1] - values[cell])
            cells = jnp.stack([first, tabulate_values(places, row).invert(uniforms[1])])
        ends = [jnp.max(jnp.take(values, np.array([0, -1]), axis)) for axis in range(self._dimension)]
        is_cut_off = jnp.max(jnp.stack(ends)) > jnp.max(values) - CUT_OFF
        flags = jnp.where(is_cut_off, Outcome.BELIEF_AT_WINDOW_EDGE, Outcome.OK)
        z = statistic.place.center + statistic.place.half_width * (cells * (2 / (self.size - 1)) - 1)
        return Draw(z, flags.astype(jnp.int32))

    def moments(self, shared, statistic, z):
        points = self._points(statistic.place)
        return Moments.of_points(self.model.parameters, points, jnp.ravel(statistic.values))

    def log_prob(self, shared, statistic, z):
        cells = self._cells(statistic.place, z)
        log_density = statistic.values
        for cell in cells:
            log_density = interpolated(log_density, cell[None], OVERSHOOT)[0]
        spacing = statistic.place.half_width * (2 / (self.size - 1))
        log_mass = jax.nn.logsumexp(statistic.values) + jnp.sum(jnp.log(spacing))
        is_inside = jnp.all((cells >= 0) & (cells <= self.size - 1))
        return jnp.where(is_inside, log_density - log_mass, -jnp.inf)

    def error(self, shared, statistic):
        return jnp.hypot(statistic.error, self._roughness(statistic.values))

    def _roughness(self, values: Float[Array, "..."]) -> Float[Array, ""]:
        """Return what interpolation misses, or one nat if most of the mass is in single points."""
        weights = jax.nn.softmax(jnp.ravel(values)).reshape(self._shape)
        total = jnp.zeros((), values.dtype)
        for axis in range(self._dimension):
            v, w = jnp.moveaxis(values, axis, 0), jnp.moveaxis(weights, axis, 0)
            is_alone = jnp.sum(jnp.max(w, axis=0)) > ALONE
            total += jnp.sum(w[5:-5] * misses_between(v) ** 2) + jnp.where(is_alone, 1.0, 0.0)
        return jnp.sqrt(total)

    def _on_best_grid(self, statistics: GridRow, update: Callable, num_rows: int) -> GridRow:
        """Update all rows on a grid that suits what comes out: the present one, in most steps."""

        def look(carry):
            place, _, num_looks, _ = carry
            is_elsewhere = jnp.any(
                (statistics.place.center != place.center) | (statistics.place.half_width != place.half_width)
            )
            move = lambda given: jax.vmap(self._moved, in_axes=(0, None))(*given)
            rows = sparse_cond(is_elsewhere, move, (statistics, place), statistics)
            values, error = update(rows, self._points(place))
            places = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (num_rows, *leaf.shape)), place)
            wanted, is_worth_moving = self._wanted(place, values)
            after = GridRow(places, jax.vmap(_settled)(values), error)
            return wanted, after, num_looks + 1, is_worth_moving & (num_looks + 1 < MAX_LOOKS)

        place = jax.tree.map(lambda leaf: leaf[0], statistics.place)
        blank = jax.tree.map(lambda leaf: jnp.zeros((num_rows, *leaf.shape[1:]), leaf.dtype), statistics)
        return jax.lax.while_loop(lambda carry: carry[3], look, (place, blank, jnp.int32(0), jnp.bool_(True)))[1]

    def _wanted(self, place: Place, values: Float[Array, "particle ..."]) -> tuple[Place, Bool[Array, ""]]:
        """Return where the grid should lie for these rows, and whether it is worth moving there."""
        top = jnp.max(values.reshape(len(values), -1), axis=1).reshape(-1, *[1] * self._dimension)
        densities = jnp.exp(values - top)
        totals = jnp.sum(densities, axis=tuple(range(1, values.ndim)), keepdims=True)
        pooled = jnp.mean(jnp.where(jnp.isfinite(totals), densities / totals, 0.0), axis=0)
        last, cells = self.size - 1, np.arange(self.size, dtype=np.int32)
        ends = []
        for axis in range(self._dimension):
            others = tuple(other for other in range(self._dimension) if other != axis)
            marginal = jnp.sum(pooled, axis=others)
            profile = jnp.log(marginal + jnp.finfo(values.dtype).tiny)
            peak = jnp.max(profile)
            is_kept = profile > peak - DEPTH
            low = jnp.maximum(jnp.min(jnp.where(is_kept, cells, last)) - 1, 0)
            high = jnp.minimum(jnp.max(jnp.where(is_kept, cells, 0)) + 1, last)
            # A spike between two points shows by its tails alone: look closer, if they hold no other mass.
            is_near = jnp.abs(cells - jnp.argmax(profile)) <= last // 4
            is_spike = marginal[5:-5] @ misses_between(profile) ** 2 > SPIKE**2
            is_spike &= marginal @ is_near > MOST
            low = jnp.where(is_spike, jnp.maximum(low, jnp.min(jnp.where(is_near, cells, last))), low)
            high = jnp.where(is_spike, jnp.minimum(high, jnp.max(jnp.where(is_near, cells, 0))), high)
            low = jnp.where(profile[0] > peak - EDGE_DEPTH, -WIDENING * last, low)
            high = jnp.where(profile[-1] > peak - EDGE_DEPTH, last + WIDENING * last, high)
            ends.append(jnp.stack([low, high]))
        low, high = jnp.stack(ends, axis=1) * (2 / last) - 1
        wanted = Place(place.center + place.half_width * (low + high) / 2, place.half_width * (high - low) / 2)
        is_other = jnp.any((high - low < 2 * SHRINK) | (low < -1) | (high > 1))
        is_sound = jnp.all(jnp.isfinite(wanted.center) & (wanted.half_width > 0)) & (jnp.max(pooled) > 0)
        return wanted, is_other & is_sound

    def _moved(self, statistic: GridRow, place: Place) -> GridRow:
        """Re-express a row on another grid."""
        old, values = statistic.place, statistic.values - self._log_prior(statistic.place)
        # In units of the old width: differences of points would lose digits when the grid is narrow.
        shift, stretch = (place.center - old.center) / old.half_width, place.half_width / old.half_width
        cells = (shift + stretch * self._units[:, None] + 1) * ((self.size - 1) / 2)
        for axis in range(self._dimension):
            turned = jnp.moveaxis(values, axis, 0)
            values = jnp.moveaxis(interpolated(turned, cells[:, axis], OVERSHOOT), 0, axis)
        missed = jnp.where(jnp.all((shift == 0) & (stretch == 1)), 0.0, self._roughness(statistic.values))
        return GridRow(place, _settled(values + self._log_prior(place)), jnp.hypot(statistic.error, missed))

    @property
    def _dimension(self) -> int:
        return self.model.parameters.dimension

    @property
    def _shape(self) -> tuple[int, ...]:
        return (self.size,) * self._dimension

    @cached_property
    def _units(self) -> np.ndarray:
        return np.linspace(-1.0, 1.0, self.size)

    def _points(self, place: Place) -> Float[Array, "point param"]:
        """Return the points of a grid, the last coordinate running fastest."""
        axes = np.meshgrid(*[self._units] * self._dimension, indexing="ij")
        return place.center + place.half_width * np.stack([np.ravel(axis) for axis in axes], axis=1)

    def _cells(self, place: Place, z: Float[Array, " param"]) -> Float[Array, " param"]:
        """Return where z lies, in cells from the first point."""
        return ((z - place.center) / place.half_width + 1) * ((self.size - 1) / 2)

    def _log_prior(self, place: Place) -> Float[Array, "..."]:
        log_prior = jax.vmap(self.model.parameters.log_prior)(self._points(place)).reshape(self._shape)
        return jnp.where(jnp.isfinite(log_prior), log_prior, -FLOOR)


def fine_enough(model: StateSpaceModel) -> int:
    """Return how many points suit a model with one coordinate."""
    factors = ThetaFactors(model)
    with jax.enable_x64(True):
        _, data = probe_data(model, NUM_TYPICAL)
        low, high = np.min(model.parameters.prior_draws), np.max(model.parameters.prior_draws)
        tests = np.linspace(-0.7, 0.7, 41)

        @jax.jit
        def values(data, places):
            points = ((low + high) / 2 + (high - low) / 2 * places)[:, None]
            return jax.vmap(lambda datum: jax.vmap(lambda z: factors.step(datum, z))(points))(data)

        exact = np.asarray(values(data, tests))
        for size in SIZES_TO_TRY:
            on_grid = values(data, np.linspace(-1.0, 1.0, size))
            misses = np.asarray(interpolated(on_grid.T, jnp.asarray((tests + 1) * (size - 1) / 2))).T - exact
            # The sharpest datum decides: the others are easy wherever it is resolved.
            if np.nanmax(np.sqrt(np.mean(misses**2, axis=1))) < CALM:
                return size
    return SIZES_TO_TRY[-1]


def _settled(values: Float[Array, "..."]) -> Float[Array, "..."]:
    """Put the peak at 0 and cut off what lies far below; if nothing is possible, return NaN."""
    known = jnp.where(jnp.isnan(values), -jnp.inf, values)
    return jnp.maximum(known - jnp.max(known), -FLOOR) + jnp.where(jnp.isfinite(jnp.max(known)), 0.0, jnp.nan)
