"""Theta-logistic growth, ecology's density dependence with an unknown shape, in log abundance x.

x' = x + r (1 - (exp(x) / K)^theta) + N(0, sigma^2), y = x + N(0, 0.2^2). A step takes x up by r at most, whatever the
parameters, so nothing explodes upwards. Above the capacity K the way down grows like (exp(x) / K)^theta; cycles
begin at r theta = 2, far above the benchmark's 0.75.

The defaults are for the benchmark's simulated series; for another unit, say what you believe:

>>> import numpyro.distributions as dist
>>> model = theta_logistic(observation_sd=0.05, prior={"K": dist.LogNormal(1.0, 0.5)}, initial=dist.Normal(-0.5, 0.5))
>>> list(model.prior)
['r', 'K', 'theta', 'sigma']

M. Gilpin and F. Ayala, Global models of growth and competition, PNAS 70 (1973).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpyro.distributions as dist

from paramfilter.model import StateSpaceModel

TRUTH = {"r": 0.5, "K": 10.0, "theta": 1.5, "sigma": 0.2}


def theta_logistic(
    observation_sd: float = 0.2, prior: Mapping[str, Any] | None = None, initial: Any = dist.Normal(1.0, 0.5)
) -> StateSpaceModel:
    """Make the growth model with unknown rate, capacity, shape and process noise.

    Args:
        observation_sd: Of y given x.
        prior: Laws that take the place of the defaults, by the parameter's name.
        initial: The law of x_0.
    """

    def transition(theta, x, inputs):
        # the power in logarithms: exp(x) / K on its own would lose a small population to rounding
        crowding = jnp.exp(theta["theta"] * (x - jnp.log(theta["K"])))
        return dist.Normal(x + theta["r"] * (1 - crowding), theta["sigma"])

    return StateSpaceModel(
        prior={
            "r": dist.LogNormal(math.log(0.4), 0.5),
            "K": dist.LogNormal(math.log(8.0), 0.5),
            "theta": dist.LogNormal(0.0, 0.5),
            "sigma": dist.LogNormal(math.log(0.2), 0.5),
            **(prior or {}),
        },
        initial=lambda theta, inputs: initial,
        transition=transition,
        observation=lambda theta, x, inputs: dist.Normal(x, observation_sd),
        name="theta_logistic",
    )
