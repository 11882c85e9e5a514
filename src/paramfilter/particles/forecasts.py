"""Forecasts of the next observation by a part of the particles, and the place of what is then seen among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from paramfilter.filters.step_info import NUM_FORECASTS
from paramfilter.model import StateSpaceModel
from paramfilter.numerics.quantiles import LEVELS
from paramfilter.numerics.weights import at_levels
from paramfilter.tracing import strongly_typed
from paramfilter.types import Inputs, KeyArray, Observation


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
