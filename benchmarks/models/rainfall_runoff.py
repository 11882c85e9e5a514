"""A catchment as two stores, one that empties within days and one that lasts for weeks, seen by its discharge.

Rain of which evaporation leaves E = rain^2 / (rain + evaporation) is shared between the stores, each of which loses a
part of what it holds, day by day:

    quick' = (1 - k_quick) (quick + share E) exp(N(0, sigma^2)),
    slow'  = (1 - k_slow) (slow + (1 - share) E) exp(N(0, sigma^2)),
    y      = log(k_quick quick + k_slow slow) + N(0, 0.1^2).

The state is the logarithm of both, in millimetres, so stores never run negative. Rainfall and evaporation are inputs.

>>> import jax
>>> from paramfilter.model import simulate
>>> xs, ys = simulate(jax.random.key(0), rainfall_runoff(), TRUTH, num_steps=50, inputs=inputs(50))
>>> xs.shape, ys.shape
((50, 2), (50,))

The split into quick and slow stores: D. Boyle, H. Gupta and S. Sorooshian, Toward improved calibration of hydrologic
models, Water Resources Research 36 (2000).
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array, Float

from paramfilter.model import StateSpaceModel
from paramfilter.types import Theta

TRUTH = {"share": 0.4, "k_quick": 0.5, "k_slow": 0.04, "sigma": 0.1}
OBSERVATION_SD = 0.1
DAYS_OF_A_YEAR = 365
WET_DAYS = 0.4
"""Their share."""
MEAN_RAIN = 8.0
"""Of a wet day, in mm."""


def inputs(num_steps: int) -> dict[str, Float[Array, " time"]]:
    """Return rainfall and evaporation in mm a day: rain on random days, the same whenever asked; warm in midyear."""
    days = jnp.arange(num_steps, dtype=jnp.float32)

    def rain_on(day):
        wet, amount = jax.random.uniform(jax.random.fold_in(jax.random.key(365), day), (2,), jnp.float32)
        return jnp.where(wet < WET_DAYS, -MEAN_RAIN * jnp.log1p(-amount), 0.0)

    evaporation = 2.5 - 1.5 * jnp.cos(2 * jnp.pi * days / DAYS_OF_A_YEAR)
    return {"rain": jax.vmap(rain_on)(jnp.arange(num_steps)), "evaporation": evaporation}


def rainfall_runoff() -> StateSpaceModel:
    """Make the two-store catchment with unknown share, rates of emptying and process noise."""

    def transition(theta, x, inputs):
        rain = inputs["rain"]
        effective = rain * rain / (rain + inputs["evaporation"])
        split, rates = jnp.stack([theta["share"], 1 - theta["share"]]), emptying(theta)
        return dist.Normal(jnp.log(jnp.exp(x) + split * effective) + jnp.log1p(-rates), theta["sigma"]).to_event(1)

    def observation(theta, x, inputs):
        return dist.Normal(jax.nn.logsumexp(x + jnp.log(emptying(theta))), OBSERVATION_SD)

    return StateSpaceModel(
        prior={
            "share": dist.Beta(3.0, 4.0),
            "k_quick": dist.Beta(5.0, 5.0),
            "k_slow": dist.Beta(3.0, 50.0),
            "sigma": dist.LogNormal(math.log(0.1), 0.5),
        },
        initial=lambda theta, inputs: dist.Normal(jnp.log(jnp.array([2.0, 30.0])), 0.5).to_event(1),
        transition=transition,
        observation=observation,
        name="rainfall_runoff",
        typical_inputs=inputs(DAYS_OF_A_YEAR),
    )


def emptying(theta: Theta) -> Float[Array, " 2"]:
    """Return the rates at which the two stores empty."""
    return jnp.stack([theta["k_quick"], theta["k_slow"]])
