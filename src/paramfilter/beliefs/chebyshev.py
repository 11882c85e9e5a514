"""A belief as values of the log density at Chebyshev points of a window that follows it: any density, one or two
parameters.

The statistic of a particle is its own window (three numbers a coordinate) and

    S_k = sum_t log p(x_t | x_{t-1}, theta_k) + log p(y_t | x_t, theta_k),

up to a constant, at the n points theta_k of the window. A datum adds the user's own log density at the points; between
the points the belief is the interpolating polynomial, plus the log prior. No derivative is taken, and the numbers stay
of the size of the window's depth for ever, so float32 is enough.

The window moves *before* a datum is absorbed: if the datum makes the belief much narrower than its window (one large
Cauchy state can narrow it a thousandfold), the old polynomial is first re-expressed on the window that the new belief
needs, as often as it takes, and the datum is then evaluated at points that resolve it. On a plain window re-expressing
is exact; on a sharpened one it is as accurate as the interpolation. A window of its own for each particle costs three
numbers and lets beliefs of one population differ a hundredfold in width, which they do when the states are
heavy-tailed.

Mixtures over several ancestors are held as they are: values at the nodes, whatever their shape. It is the one belief
here that can do so, which keeps theta from being locked in by paths where states jump.

What it costs: n evaluations of the user's log density for an update, a small matrix product for a draw. When it
lies: where a log density has features finer than the distance of the points, such as a kink; `approximation_error`
shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from paramfilter.beliefs.accuracy import error_over_bulk
from paramfilter.beliefs.base import Belief, BoundBelief, Draw, LikelihoodBelief, Moments, scaled
from paramfilter.beliefs.coordinates import coordinates_for
from paramfilter.beliefs.samplers import tabulate_values
from paramfilter.beliefs.window import DEPTH, Window, plain_window, wanted_window
from paramfilter.beliefs.window_points import WindowPoints
from paramfilter.errors import BeliefError
from paramfilter.inspect.dependence import ThetaFactors
from paramfilter.model import Datum, StateSpaceModel
from paramfilter.numerics.sparse import few_at_a_time
from paramfilter.outcome import Outcome
from paramfilter.parameters import Parameters
from paramfilter.polynomials import (
    along_axes,
    interpolation_row,
)
from paramfilter.tracing import evaluate

DEFAULT_NODES = {1: 33, 2: 8}
"""Points a coordinate, by the number of coordinates."""

MANY_NODES = 16
"""With fewer points a coordinate windows stay plain."""

MAX_MOVES = 6
"""How often a window may move before it takes a datum in: each move narrows it up to tenfold."""

MOVED_SHARE = 64
"""Windows are moved N / 64 at a time."""

CUT_OFF = 3.0
"""A belief that is still within this many nats of its peak at the end of the window has lost mass that matters."""

IMPOSSIBLE = -1e9
"""Nats that stand for minus infinity where only the shape of the bulk is asked for."""

BELOW = 2 * DEPTH
"""Nats below the lowest possible point that an impossible one is given: minus infinity would spoil the polynomial."""


@dataclass(frozen=True)
class Chebyshev(Belief):
    """Values of the log density at Chebyshev points of a moving window, for one or two parameters.

    Args:
        num_nodes: Points a coordinate; None for 33 with one parameter and 8 with two.
    """

    num_nodes: int | tuple[int, ...] | None = None

    def bind(self, model: StateSpaceModel) -> BoundBelief:
        """Fit any model with one or two unconstrained coordinates."""
        dimension = model.parameters.dimension
        if dimension not in DEFAULT_NODES:
            raise BeliefError(
                f"Chebyshev holds one or two parameters, but this model has {dimension}; use CrossInterpolation()."
            )
        given = DEFAULT_NODES[dimension] if self.num_nodes is None else self.num_nodes
        num_nodes = given if isinstance(given, tuple) else (given,) * dimension
        if len(num_nodes) != dimension or min(num_nodes) < 3:
            raise BeliefError(f"Chebyshev needs at least 3 nodes for each of {dimension} coordinates, got {given!r}.")
        return BoundChebyshev(
            model, ThetaFactors(model), WindowPoints(num_nodes), prior_hull(model.parameters), repr(self)
        )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class WindowedValues:
    """What a particle remembers: its window, the log likelihood at the window's points, and its errors: the misses at
    the check points (see `accuracy`), and what earlier moves of the window have hidden from them, in nats."""

    window: Window
    values: Float[Array, "..."]
    misses: Float[Array, " check"]
    hidden: Float[Array, ""]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Sight:
    """A datum at the points of a window, the window that would suit the new belief, and whether to move there."""

    terms: Float[Array, "..."]
    suits: Window
    is_worth_moving: Bool[Array, ""]


@dataclass(frozen=True, eq=False)
class BoundChebyshev(LikelihoodBelief):
    """The belief, fitted to a model."""

    model: StateSpaceModel
    factors: ThetaFactors
    points: WindowPoints
    first_window: tuple[np.ndarray, np.ndarray]
    name: str

    @property
    def num_nodes(self) -> tuple[int, ...]:
        """How many nodes each coordinate has."""
        return self.points.num_nodes

    def start(self):
        return WindowedValues(
            plain_window(*self.first_window),
            jnp.zeros(self.num_nodes),
            jnp.zeros(self.points.checks.size),
            jnp.zeros(()),
        )

    def faded(self, statistic, share):
        return replace(scaled(statistic, share), window=statistic.window)

    def absorb_from_many(self, shared, statistics, data, ancestors):
        series = jax.vmap(lambda statistic: self.points.as_series(statistic.values))(statistics)
        log_masses = jax.vmap(self._log_mass)(statistics)
        sources = jax.tree.map(lambda leaf: leaf[ancestors], (statistics.window, series, log_masses, data.x_prev))
        moves = (sources, data.x)

        def parts(move, z):
            """What each ancestor's belief says about theta and the move."""
            sources, x = move

            def from_one(window, series, log_mass, x_prev):
                come_from_there = self.factors.transition(Datum(x_prev, x, data.y, data.inputs), z)
                return self.points.series_at(window, series, z) - log_mass + come_from_there

            return jax.lax.optimization_barrier(jax.vmap(from_one)(*sources))

        def log_likelihood(move, z):
            seen = self.factors.observation(Datum(None, move[1], data.y, data.inputs), z)
            return jax.nn.logsumexp(parts(move, z)) + seen

        # On the window of the own ancestor, which comes first; windows of one population are alike.
        windows = jax.tree.map(lambda leaf: leaf[ancestors[:, 0]], statistics.window)
        shares = jax.vmap(lambda move, window: jax.nn.softmax(parts(move, window.center)))(moves, windows)
        errors = jax.vmap(lambda statistic: self.approximation_error(shared, statistic))(statistics)[ancestors]
        blank = WindowedValues(
            windows,
            jnp.zeros((len(ancestors), *self.num_nodes), errors.dtype),
            jnp.zeros((len(ancestors), self.points.checks.size), errors.dtype),
            jnp.sqrt(jnp.sum(shares * errors**2, axis=1)),
        )
        return self._learn_all(blank, log_likelihood, moves)

    def mixed(self, shared, first, second):
        # On the wider window, so that no part of the mixture is cut off.
        is_wider = jnp.sum(jnp.log(first.window.half_width)) >= jnp.sum(jnp.log(second.window.half_width))
        wide = jax.tree.map(lambda one, other: jnp.where(is_wider, one, other), first, second)
        narrow = jax.tree.map(lambda one, other: jnp.where(is_wider, other, one), first, second)
        moved = self._moved(narrow, wide.window)
        values = jnp.logaddexp(wide.values - self._log_mass(wide), moved.values - self._log_mass(narrow))
        misses = 0.5 * (wide.misses + moved.misses)
        hidden = jnp.sqrt(0.5 * (wide.hidden**2 + moved.hidden**2))
        return WindowedValues(wide.window, values - jnp.max(values), misses - jnp.mean(misses), hidden)

    def _log_mass(self, statistic: WindowedValues) -> Float[Array, ""]:
        """Return the logarithm of the belief's integral in window coordinates, in units of the grid's cells."""
        return jax.nn.logsumexp(self._on_grid(statistic))

    def draw(self, key, shared, statistic, previous):
        window = statistic.window
        log_density = self._on_grid(statistic)
        keys = jax.random.split(key, window.dimension)
        uniforms = [jax.random.uniform(k, dtype=previous.dtype) for k in keys]
        grid = jnp.asarray(self.points.grid.u, previous.dtype)
        if window.dimension == 1:
            first = tabulate_values(grid, log_density)
            u = first.invert(uniforms[0])[None]
        else:
            # The marginal of the first coordinate, then the second given the first.
            first = tabulate_values(grid, jax.nn.logsumexp(log_density, axis=1))
            u_first = first.invert(uniforms[0])
            second = tabulate_values(grid, self._slice(statistic, u_first))
            u = jnp.stack([u_first, second.invert(uniforms[1])])
        profiles = _over_others(self._with_prior(statistic))
        ends = jnp.stack([jnp.maximum(profile[0], profile[-1]) for profile in profiles])
        is_cut_off = jnp.any(ends > jnp.max(profiles[0]) - CUT_OFF)
        flags = jnp.where(is_cut_off, Outcome.BELIEF_AT_WINDOW_EDGE, Outcome.OK)
        return Draw(window.to_z(u), flags.astype(jnp.int32))

    def moments(self, shared, statistic, z):
        log_weights = jnp.ravel(self._on_grid(statistic))
        return Moments.of_points(self.model.parameters, self.points.at_grid(statistic.window), log_weights)

    def log_prob(self, shared, statistic, z):
        spacing = 2.0 / (len(self.points.grid.u) - 1)
        log_normaliser = self._log_mass(statistic) + statistic.window.dimension * jnp.log(spacing)
        u = statistic.window.to_u(z)
        inside = jnp.all(jnp.abs(u) <= 1)
        log_density = self.points.interpolate(self._with_prior(statistic), jnp.clip(u, -1, 1))
        return jnp.where(inside, log_density - log_normaliser, -jnp.inf)

    def approximation_error(self, shared, statistic):
        return jnp.hypot(self._error_at_checks(statistic), statistic.hidden)

    def _error_at_checks(self, statistic: WindowedValues) -> Float[Array, ""]:
        return error_over_bulk(statistic.misses, self.points.interpolate_at_checks(self._with_prior(statistic)))

    def learn(self, statistic: WindowedValues, log_likelihood: Callable) -> WindowedValues:
        """Take a log likelihood in, on a window that resolves it."""
        alone = jax.tree.map(lambda leaf: leaf[None], statistic)
        settled = self._learn_all(alone, lambda _, z: log_likelihood(z), jnp.zeros(1))
        return jax.tree.map(lambda leaf: leaf[0], settled)

    def absorb_all(self, shared, statistics, data):
        def log_likelihood(move, z):
            x_prev, x = move
            return self.factors.step(Datum(x_prev, x, data.y, data.inputs), z)

        return self._learn_all(statistics, log_likelihood, (data.x_prev, data.x))

    def _learn_all(self, statistics: WindowedValues, log_likelihood: Callable, data: PyTree) -> WindowedValues:
        """Take log likelihoods in, each on a window that resolves it.

        In most steps one window in a hundred has to move. A batch of those is moved at a time, until none is left: the
        others do not pay for it.
        """
        look = jax.vmap(lambda candidate, datum: self._look(candidate, lambda z: log_likelihood(datum, z)))
        take_in = jax.vmap(
            lambda settled, terms, datum: self._take_in(settled, terms, lambda z: log_likelihood(datum, z))
        )

        def are_unsettled(rows):
            _, sights, num_moves = rows
            return sights.is_worth_moving & (num_moves < MAX_MOVES)

        def move(rows, data):
            some, sights, num_moves = rows
            moved = jax.vmap(self._moved)(some, sights.suits)
            return moved, look(moved, data), num_moves + 1

        start = (statistics, look(statistics, data), jnp.zeros(len(statistics.hidden), jnp.int32))
        settled, sights, _ = few_at_a_time(are_unsettled, move, start, data, share=MOVED_SHARE)
        return take_in(settled, sights.terms, data)

    def _look(self, candidate: WindowedValues, log_likelihood: Callable) -> _Sight:
        """Evaluate a datum at the window's points, and see which window the new belief wants."""
        terms = jax.vmap(log_likelihood)(self.points.at_nodes(candidate.window)).reshape(self.num_nodes)
        # Straight lines take any low value for an impossible one; if all are impossible there is nothing to see.
        values = candidate.values + jnp.where(jnp.isfinite(terms), terms, IMPOSSIBLE)
        profiles = self._profiles(self._with_prior(replace(candidate, values=values)))
        suits, is_worth_moving = wanted_window(
            candidate.window, self.points.grid, profiles, may_sharpen=min(self.num_nodes) >= MANY_NODES
        )
        return _Sight(terms, suits, is_worth_moving & (jnp.max(profiles) > 0.5 * IMPOSSIBLE))

    def _take_in(self, settled: WindowedValues, terms: Float[Array, "..."], log_likelihood: Callable) -> WindowedValues:
        """Add a datum's values at the window's points, and see what interpolation makes of it between them."""
        terms = _floored(terms)
        interpolated = self.points.interpolate_at_checks(terms)
        exact = jax.vmap(log_likelihood)(self.points.at_checks(settled.window))
        misses = settled.misses + interpolated - exact
        values = settled.values + terms
        # Constants cancel in every use; taking them out keeps the numbers small.
        return replace(settled, values=values - jnp.max(values), misses=misses - jnp.mean(misses))

    def _moved(self, statistic: WindowedValues, window: Window) -> WindowedValues:
        """Re-express a belief on another window."""
        old, dtype = statistic.window, statistic.misses.dtype
        values = along_axes(self.points.transfers(old, window), statistic.values)
        places = jnp.asarray(self.points.checks.places, dtype)

        def change(u):
            """What re-expressing did to the belief at an old check point, where the new window has it."""
            u_new = window.to_u(old.to_z(u))
            now, before = (values, jnp.clip(u_new, -1, 1)), (statistic.values, u)
            moved = self.points.interpolate(*now) - self.points.interpolate(*before)
            return jnp.where(jnp.all(jnp.abs(u_new) <= 1), moved, 0.0)

        misses = statistic.misses + jax.vmap(change)(places)
        new_places = jax.vmap(lambda u: old.to_u(window.to_z(u)))(places)
        moved = WindowedValues(window, values, self.points.checks.carry(misses, new_places), jnp.zeros((), dtype))
        # Ripples between the old check points cannot be seen from the new ones; they flatten as the window narrows.
        before, after = self._error_at_checks(replace(statistic, misses=misses)), self._error_at_checks(moved)
        zoom = jnp.minimum(1.0, jnp.min(window.core / old.core))
        hidden = jnp.hypot(zoom * statistic.hidden, jnp.sqrt(zoom) * jnp.sqrt(jnp.maximum(before**2 - after**2, 0.0)))
        return replace(moved, hidden=hidden)

    def _with_prior(self, statistic: WindowedValues) -> Float[Array, "..."]:
        """Return the log density at the nodes."""
        prior = jax.vmap(self.model.parameters.log_prior)(self.points.at_nodes(statistic.window))
        # A minimum over values that are not in memory has them computed once more, one by one.
        prior = prior if self._is_prior_finite else _floored(prior)
        return statistic.values + prior.reshape(self.num_nodes)

    @cached_property
    def _is_prior_finite(self) -> bool:
        """Whether the log density of the prior is finite wherever a window could be."""
        low, high = self.first_window
        places = [np.linspace(*ends, 65) for ends in zip(3 * low - 2 * high, 3 * high - 2 * low, strict=True)]
        points = np.stack([np.ravel(axis) for axis in np.meshgrid(*places, indexing="ij")], axis=1)
        log_prior = jax.vmap(self.model.parameters.log_prior)
        return bool(np.all(np.isfinite(evaluate(log_prior, points.astype(jnp.result_type(float))))))

    def _profiles(self, values: Float[Array, "..."]) -> Float[Array, "param point"]:
        return jnp.stack(_over_others(along_axes(self.points.lines_to_grid(values.dtype), values)))

    def _on_grid(self, statistic: WindowedValues) -> Float[Array, "..."]:
        """Return the log density in window coordinates on the grid, cut off where the polynomial is mere ripple."""
        table = along_axes(self.points.to_grid(statistic.misses.dtype), self._with_prior(statistic))
        table = jnp.maximum(table, jnp.max(table) - 2 * DEPTH)
        window = statistic.window
        for axis in range(window.dimension):
            slope = window.log_slope_at(axis, self.points.grid)
            table = table + jnp.expand_dims(slope, [other for other in range(window.dimension) if other != axis])
        return table

    def _slice(self, statistic: WindowedValues, u_first: Float[Array, ""]) -> Float[Array, " point"]:
        row = interpolation_row(self.num_nodes[0], u_first) @ self._with_prior(statistic)
        grid = jnp.asarray(self.points.grid.u, row.dtype)
        stretch = jax.vmap(lambda u: statistic.window.log_stretch(jnp.stack([u_first, u])))(grid)
        return self.points.to_grid(row.dtype)[1] @ row + stretch


def prior_hull(parameters: Parameters, num_points: int = 513) -> tuple[np.ndarray, np.ndarray]:
    """Return corners of a box that holds the prior down to `DEPTH` nats below its top, and all its draws."""
    coordinates = coordinates_for(parameters, None)
    low, high = np.min(parameters.prior_draws, axis=0), np.max(parameters.prior_draws, axis=0)
    log_prior = jax.jit(jax.vmap(parameters.log_prior))
    for axis in range(parameters.dimension):
        points = np.repeat(coordinates.center[None], num_points, axis=0)
        points[:, axis] = np.linspace(coordinates.window[0][axis], coordinates.window[1][axis], num_points)
        scores = np.asarray(log_prior(points.astype(jnp.result_type(float))))
        kept = points[scores > np.nanmax(scores) - DEPTH, axis]
        low[axis], high[axis] = min(low[axis], kept[0]), max(high[axis], kept[-1])
    return low, high


def _floored(terms: Float[Array, "..."]) -> Float[Array, "..."]:
    """Put impossible values somewhat below the possible ones; if none is possible, return NaN."""
    is_known = jnp.isfinite(terms)
    lowest = jnp.min(jnp.where(is_known, terms, jnp.inf))
    return jnp.where(is_known, terms, jnp.where(jnp.any(is_known), lowest - BELOW, jnp.nan))


def _over_others(table: Float[Array, "..."]) -> list[Float[Array, " _"]]:
    """Return for each axis the largest value over all others."""
    axes = range(table.ndim)
    return [jnp.max(table, axis=tuple(axis for axis in axes if axis != keep)) for keep in axes]
