"""Stochastic volatility, x the log variance of a return y: x' = mu + phi (x - mu) + N(0, sigma^2), y ~ N(0, exp(x))."""

from __future__ import annotations

import jax.numpy as jnp
import numpyro.distributions as dist

from paramfilter.model import StateSpaceModel

TRUTH = {"mu": -1.0, "phi": 0.95, "sigma": 0.25}


def stochastic_volatility() -> StateSpaceModel:
    """Make the log-normal stochastic volatility model with unknown level, persistence and volatility of volatility."""

    def transition(theta, x, inputs):
        return dist.Normal(theta["mu"] + theta["phi"] * (x - theta["mu"]), theta["sigma"])

    return StateSpaceModel(
        prior={
            "mu": dist.Normal(0.0, 2.0),
            "phi": dist.TransformedDistribution(
                dist.Beta(20.0, 1.5), dist.transforms.AffineTransform(-1.0, 2.0, domain=dist.constraints.unit_interval)
            ),
            "sigma": dist.LogNormal(-1.5, 0.5),
        },
        initial=lambda theta, inputs: dist.Normal(theta["mu"], theta["sigma"] / jnp.sqrt(1 - theta["phi"] ** 2)),
        transition=transition,
        observation=lambda theta, x, inputs: dist.Normal(0.0, jnp.exp(x / 2)),
        name="stochastic_volatility",
    )
