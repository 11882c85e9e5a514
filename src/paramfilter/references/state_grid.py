"""A grid of the state that is wide and fine enough for the forward filter, found by trial.

1. A pilot, SIR on (x, theta), finds a plausible theta; a second one there finds the range of the states.
2. At a few values of theta the range grows until the density at its ends is negligible, and the spacing shrinks until
   the log-likelihood no longer moves. Transition, observation and whatever else is narrow are resolved by this test.
3. Once the posterior of theta is known, the second step is repeated across it, and its share of nodes with an
   unresolved transition must be negligible.

A grid that needs too many points for this is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpyro.distributions import biject_to, constraints

from paramfilter.errors import ModelError
from paramfilter.references.bootstrap import bootstrap_filter
from paramfilter.references.forward_filter import forward_filter, only_leaf
from paramfilter.references.problem import Answer, Problem

RANGE_DEVIATIONS = 8.0
POINTS_PER_DEVIATION = 1.25
"""First guess of the spacing. A Gaussian of sd s sampled at s / 1.25 has a trapezoid error of 4e-14."""
EDGE_TOLERANCE = 1e-9
"""Of the filtered density at an end of the range, times the range."""
SPACING_TOLERANCE = 1e-8
"""Of a log-likelihood, in nats, when the spacing shrinks by a third."""
SMALLEST_SD = 1e-6
WIDENING = 0.25
REFINING = 1.5
MIN_POINTS, MAX_POINTS = 33, 2048


@dataclass(frozen=True)
class Lattice:
    """A uniform grid in the unconstrained coordinate s of the state."""

    low: float
    high: float
    num_points: int

    def halved_spacing(self) -> Lattice:
        """Return the same range with a point between each two."""
        return replace(self, num_points=2 * self.num_points - 1)

    def finer(self) -> Lattice:
        """Return the same range with a spacing shrunk by a third."""
        return replace(self, num_points=_round_up(REFINING * self.num_points))

    def wider(self, at_low: bool, at_high: bool) -> Lattice:
        """Return a range grown at the ends named, with the same spacing."""
        growth = WIDENING * (self.high - self.low)
        low, high = self.low - growth * at_low, self.high + growth * at_high
        return Lattice(low, high, _round_up((high - low) / (self.high - self.low) * self.num_points))


@dataclass(frozen=True, eq=False)
class FilterOnGrid:
    """The forward filter of a problem, compiled once for each number of points."""

    problem: Problem
    bijector: Any
    _run: Any = field(repr=False)

    def run(self, lattice: Lattice, z: Float[np.ndarray, "node param"]) -> Answer:
        """Return the answers at all nodes of theta, as NumPy arrays."""
        found = self._run(jnp.asarray(z), jnp.asarray(lattice.low), jnp.asarray(lattice.high), lattice.num_points)
        return jax.tree.map(np.asarray, found)

    def settle(
        self, lattice: Lattice, z: Float[np.ndarray, "node param"], importance: Float[np.ndarray, " node"]
    ) -> Lattice:
        """Widen and refine the lattice until the likelihood at the given nodes no longer notices.

        An error counts for as much as its node does: `importance` is the posterior density over its maximum.
        """
        found = self.run(lattice, z)
        while lattice.num_points <= MAX_POINTS:
            usable = np.isfinite(found.log_likelihood)
            is_lost = not np.any(usable)
            low, high = np.any((found.edges * importance[:, None])[usable] > EDGE_TOLERANCE, axis=0) | is_lost
            other = lattice.wider(bool(low), bool(high)) if low or high else lattice.finer()
            again = self.run(other, z)
            moves = np.abs(again.log_likelihood - found.log_likelihood) * importance
            if not (low or high) and np.max(moves[usable]) <= SPACING_TOLERANCE:
                return lattice
            lattice, found = other, again
        low, high = (float(self.bijector(jnp.asarray(end))) for end in (lattice.low, lattice.high))
        raise ModelError(
            f"a grid of the state from {low:.4g} to {high:.4g} that resolves the model needs more than {MAX_POINTS} "
            "points. Use references.pmmh instead."
        )


def filter_on_grid(problem: Problem) -> FilterOnGrid:
    """Choose the coordinate of the state and compile the filter; refuse a state that is not one real number."""
    if problem.state_size != 1:
        raise ModelError(
            f"grid_posterior needs a scalar state, and this model's state has {problem.state_size} components; use "
            "references.pmmh, or kalman_grid if the model is linear and Gaussian."
        )
    bijector = _state_bijector(problem)

    def run(z, low, high, num_points):
        s = low + (high - low) * jnp.arange(num_points) / (num_points - 1)
        return jax.lax.map(partial(forward_filter, problem, bijector, s), z)

    return FilterOnGrid(problem, bijector, jax.jit(run, static_argnums=3))


def pilot_lattice(on_grid: FilterOnGrid) -> tuple[Lattice, Float[np.ndarray, "node param"]]:
    """Return a first lattice, by the filtered states of a pilot run, and a few plausible values of theta."""
    problem, view = on_grid.problem, on_grid.bijector.inv
    run = jax.jit(lambda key, z: bootstrap_filter(problem, key, z, view=view))
    key_first, key_second = jax.random.split(jax.random.key(0))
    population = run(key_second, run(key_first, jnp.asarray(problem.model.parameters.prior_draws)).z)
    mean, sd = np.asarray(population.means)[:, 0], np.sqrt(np.asarray(population.variances)[:, 0])
    usable = np.isfinite(mean) & np.isfinite(sd)
    if not np.any(usable):
        raise ModelError("the states of a pilot run are not finite; check the model's transition.")
    mean, sd = mean[usable], sd[usable]
    # few particles find an outlying state, and then their spread is no measure of its sd; with one it is zero
    typical = max(float(np.median(sd)), float(np.ptp(mean)) / MAX_POINTS, SMALLEST_SD)
    reach = RANGE_DEVIATIONS * np.maximum(sd, typical)
    low, high = float(np.min(mean - reach)), float(np.max(mean + reach))
    z = np.asarray(population.z)
    chosen = np.linspace(0, len(z) - 1, 2 * z.shape[1] + 1).astype(int)
    num_points = min(_round_up(POINTS_PER_DEVIATION * (high - low) / typical), MAX_POINTS)
    return Lattice(low, high, num_points), z[chosen]


def _round_up(num_points: float) -> int:
    """Return a number of points that vector instructions like, within bounds."""
    return int(np.clip(8 * np.ceil(num_points / 8), MIN_POINTS, 2 * MAX_POINTS))


def _state_bijector(problem: Problem) -> Any:
    """Return the map from R to the support of the state, if that has constant bounds; else the identity."""
    model = problem.model
    inputs = None if problem.inputs is None else problem.inputs_at(0)
    supports = []
    for z in model.parameters.prior_draws[:2]:
        theta = model.parameters.constrain(jnp.asarray(z))
        supports.append(only_leaf(model.transition(theta, problem.to_state(jnp.ones(1)), inputs)).support)
    if getattr(supports[0], "is_discrete", False):
        raise ModelError("grid_posterior needs a continuous state, and this one is discrete; use references.pmmh.")
    bounds = [tuple(getattr(support, end, None) for end in ("lower_bound", "upper_bound")) for support in supports]
    constant = bounds[0] == bounds[1] and bounds[0] != (None, None)
    return biject_to(supports[0] if constant else constraints.real)
