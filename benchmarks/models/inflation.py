"""Inflation as a level that wanders, seen through noise whose variance changes: an unobserved-components model.

The state is (level, h). Level moves by N(0, sigma_level^2) a quarter, h' = mu + phi (h - mu) + N(0, sigma_h^2), and the
measured inflation is y ~ N(level, exp(h)).

J. Stock and M. Watson, Why has US inflation become harder to forecast?, J. Money, Credit and Banking 39 (2007), there
with a second variance for the level and random walks for both.
"""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpyro.distributions as dist

from paramfilter.model import StateSpaceModel


def inflation() -> StateSpaceModel:
    """Make the model of quarterly inflation, in per cent a year."""

    def initial(theta, inputs):
        spread = theta["sigma_h"] / jnp.sqrt(1 - theta["phi"] ** 2)
        center = jnp.stack([jnp.asarray(2.0), theta["mu"]])
        return dist.Normal(center, jnp.stack([jnp.asarray(3.0), spread])).to_event(1)

    def transition(theta, x, inputs):
        h = theta["mu"] + theta["phi"] * (x[1] - theta["mu"])
        return dist.Normal(jnp.stack([x[0], h]), jnp.stack([theta["sigma_level"], theta["sigma_h"]])).to_event(1)

    return StateSpaceModel(
        prior={
            "sigma_level": dist.LogNormal(math.log(0.5), 0.7),
            "mu": dist.Normal(1.0, 1.5),
            "phi": dist.Uniform(0.0, 1.0),
            "sigma_h": dist.LogNormal(math.log(0.4), 0.5),
        },
        initial=initial,
        transition=transition,
        observation=lambda theta, x, inputs: dist.Normal(x[0], jnp.exp(x[1] / 2)),
        name="inflation",
    )
