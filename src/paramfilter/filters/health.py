"""What a filter notices about itself while it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from paramfilter.model import StateSpaceModel
from paramfilter.numerics.quantiles import LEVELS
from paramfilter.numerics.weights import choose_by_weight
from paramfilter.types import Inputs, KeyArray, Observation

NUM_FORECASTS = 100
"""Particles that foretell the observation before they see it."""


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


def forecast(
    key: KeyArray,
    model: StateSpaceModel,
    x: PyTree,
    z: Float[Array, "particle param"],
    log_weights: Float[Array, " particle"],
    inputs: Inputs,
) -> Observation:
    """Return what some particles, chosen by weight, expect to be observed next: a leading axis of `NUM_FORECASTS`."""
    key_choose, key_futures = jax.random.split(key)
    chosen = choose_by_weight(key_choose, log_weights, NUM_FORECASTS)
    x, z = jax.tree.map(lambda leaf: leaf[chosen], (x, z))

    def one(one_key, one_x, one_z):
        return model.sample_next(one_key, model.parameters.constrain(one_z), one_x, inputs)

    return jax.vmap(one)(jax.random.split(key_futures, NUM_FORECASTS), x, z)


def forecast_quantiles(forecasts: Observation) -> Observation:
    """Return the quantiles of forecasts at `LEVELS`, on a leading axis, for each component of y."""
    places = np.array(LEVELS) * (NUM_FORECASTS - 1)
    below, share = places.astype(int), places % 1

    def quantiles(foretold: Any):
        ordered = jnp.sort(foretold.astype(jnp.result_type(float)), axis=0)
        part = jnp.asarray(share, ordered.dtype).reshape(-1, *(1,) * (ordered.ndim - 1))
        return (1 - part) * ordered[below] + part * ordered[below + 1]

    return jax.tree.map(quantiles, forecasts)


def predictive_rank(key: KeyArray, forecasts: Observation, y: Observation) -> Observation:
    """Return for each component of y its rank among the forecasts (its PIT), between 0 and 1, NaN where y is missing.

    If y and the M forecasts are exchangeable, y has each of the ranks 0..M with probability 1 / (M + 1), with ties in
    random order; so (rank + u) / (M + 1) is uniform, and so is (below + u (ties + 1)) / (M + 1), which draws the order
    among ties and the place within the rank by one uniform u. This holds for counts as well.
    """
    u = jax.random.uniform(key)

    def rank(foretold: Any, seen: Any):
        foretold = jnp.asarray(foretold, seen.dtype)
        below, ties = jnp.sum(foretold < seen, axis=0), jnp.sum(foretold == seen, axis=0)
        place = (below + u * (ties + 1)) / (len(foretold) + 1)
        return jnp.where(jnp.isnan(seen), jnp.nan, place).astype(seen.dtype)

    return jax.tree.map(rank, forecasts, y)
