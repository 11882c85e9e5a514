"""What a filter notices about itself while it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from paramfilter.filters.islands import disagreement, island_moments
from paramfilter.model import StateSpaceModel
from paramfilter.numerics.quantiles import LEVELS
from paramfilter.numerics.weights import at_levels
from paramfilter.tracing import strongly_typed
from paramfilter.types import Inputs, KeyArray, Observation

if TYPE_CHECKING:
    from paramfilter.filters.particle_filter import ParticleFilter
    from paramfilter.filters.proposing import Particles

NUM_FORECASTS = 100
"""Particles that foretell the observation before they see it."""

UNKNOWN = -1
"""In place of a number of ancestors that was not counted."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Lineage:
    """Where the particles come from: their ancestors' indices at the last two marks, which are powers of two in time.

    So `older` speaks of a time between t/4 and t/2: if few ancestors are left there, a good part of what was learned
    rests on few paths.
    """

    recent: Int[Array, " particle"]
    older: Int[Array, " particle"]

    @staticmethod
    def start(num_particles: int) -> Lineage:
        """Return the lineage of particles that are their own ancestors."""
        own = jnp.arange(num_particles, dtype=jnp.int32)
        return Lineage(own, own)

    def through(self, ancestors: Int[Array, " particle"], time: Int[Array, ""]) -> Lineage:
        """Follow one resampling at a time, and set a mark there if it is due."""
        recent, older = self.recent[ancestors], self.older[ancestors]
        is_due = (time & (time - 1)) == 0
        own = jnp.arange(len(ancestors), dtype=jnp.int32)
        return Lineage(jnp.where(is_due, own, recent), jnp.where(is_due, recent, older))

    def num_ancestors(self) -> Int[Array, ""]:
        """Count the distinct ancestors at the older mark."""
        return num_distinct(self.older)


def num_distinct(ancestors: Int[Array, " particle"]) -> Int[Array, ""]:
    """Count the particles that are an ancestor of any."""
    return jnp.sum(jnp.zeros(len(ancestors), jnp.int32).at[ancestors].set(1))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Forecasts:
    """What some particles expect to be observed next, and a uniform number that orders ties among them."""

    y: Observation
    u: Float[Array, ""]


def forecast(
    key: KeyArray,
    model: StateSpaceModel,
    x: PyTree,
    z: Float[Array, "particle param"],
    log_weights: Float[Array, " particle"],
    inputs: Inputs,
) -> Forecasts:
    """Return forecasts of `NUM_FORECASTS` particles, chosen systematically by weight."""
    keys = jax.random.split(key, 1 + 2 * NUM_FORECASTS)
    shift, u = jax.random.uniform(keys[0], (2,), log_weights.dtype)
    chosen = at_levels(jnp.exp(log_weights), (jnp.arange(NUM_FORECASTS) + shift) / NUM_FORECASTS)
    x, z = jax.tree.map(lambda leaf: leaf[chosen], (x, z))

    def one(key_move, key_observe, one_x, one_z):
        theta = model.parameters.constrain(one_z)
        x_next = strongly_typed(model.sample_transition(key_move, theta, one_x, inputs))
        return model.sample_observation(key_observe, theta, x_next, inputs)

    return Forecasts(jax.vmap(one)(keys[1 : 1 + NUM_FORECASTS], keys[1 + NUM_FORECASTS :], x, z), u)


def forecast_quantiles(forecasts: Observation) -> Observation:
    """Return the quantiles of forecasts at `LEVELS`, on a leading axis, for each component of y."""
    places = np.array(LEVELS) * (NUM_FORECASTS - 1)
    below, share = places.astype(int), places % 1

    def quantiles(foretold: Any):
        ordered = jnp.sort(foretold.astype(jnp.result_type(float)), axis=0)
        part = jnp.asarray(share, ordered.dtype).reshape(-1, *(1,) * (ordered.ndim - 1))
        return (1 - part) * ordered[below] + part * ordered[below + 1]

    return jax.tree.map(quantiles, forecasts)


def health_figures(
    filter: ParticleFilter, particles: Particles, forecasts: Forecasts | None, y: Observation
) -> dict[str, Any]:
    """Return what `StepInfo` tells of islands, ancestors and forecasts; blanks, if the filter leaves them out."""
    if not filter.health or forecasts is None:
        unknown = jax.tree.map(lambda leaf: jnp.full_like(leaf, jnp.nan), y)
        rhat = jnp.full((particles.z.shape[1],), jnp.nan, particles.z.dtype)
        quantiles = jax.tree.map(lambda leaf: jnp.full((len(LEVELS), *leaf.shape), jnp.nan, leaf.dtype), y)
        return {"rhat": rhat, "num_unique_ancestors": jnp.int32(UNKNOWN), "forecast": quantiles, "pit": unknown}
    return {
        "rhat": disagreement(island_moments(filter.num_islands, particles.z, particles.log_weights)),
        "num_unique_ancestors": particles.lineage.num_ancestors(),
        "forecast": forecast_quantiles(forecasts.y),
        "pit": predictive_rank(forecasts, y),
    }


def predictive_rank(forecasts: Forecasts, y: Observation) -> Observation:
    """Return for each component of y its rank among the forecasts (its PIT), between 0 and 1, NaN where y is missing.

    If y and the M forecasts are exchangeable, y has each of the ranks 0..M with probability 1 / (M + 1), with ties in
    random order; so (rank + u) / (M + 1) is uniform, and so is (below + u (ties + 1)) / (M + 1), which draws the order
    among ties and the place within the rank by one uniform u. This holds for counts as well.
    """

    def rank(foretold: Any, seen: Any):
        foretold = jnp.asarray(foretold, seen.dtype)
        below, ties = jnp.sum(foretold < seen, axis=0), jnp.sum(foretold == seen, axis=0)
        place = (below + forecasts.u * (ties + 1)) / (len(foretold) + 1)
        return jnp.where(jnp.isnan(seen), jnp.nan, place).astype(seen.dtype)

    return jax.tree.map(rank, forecasts.y, y)
