"""Van drivers killed on British roads each month, 1969 to 1984, and what the seat belt law of 1983 changed.

Counts are Poisson with a log rate of x + belt law + cosine cos(2 pi m / 12) + sine sin(2 pi m / 12), where the level x
moves by N(0, sigma^2) a month, law is 0 before February 1983 and 1 since, and m is the month. Inputs are the three
columns law, cosine and sine.

J. Durbin and S. J. Koopman, Time series analysis of non-Gaussian observations based on state space models from both
classical and Bayesian perspectives, JRSS B 62 (2000), with A. Harvey's data.
"""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpyro.distributions as dist

from paramfilter.model import StateSpaceModel
from paramfilter.types import Inputs


def seat_belts(inputs: Inputs) -> StateSpaceModel:
    """Make the model of monthly deaths for the months whose inputs are given."""

    def observation(theta, x, inputs):
        season = theta["cosine"] * inputs[1] + theta["sine"] * inputs[2]
        return dist.Poisson(jnp.exp(x + theta["belt"] * inputs[0] + season))

    return StateSpaceModel(
        prior={
            "sigma": dist.LogNormal(math.log(0.1), 0.7),
            "belt": dist.Normal(0.0, 0.5),
            "cosine": dist.Normal(0.0, 0.5),
            "sine": dist.Normal(0.0, 0.5),
        },
        initial=lambda theta, inputs: dist.Normal(2.0, 1.0),
        transition=lambda theta, x, inputs: dist.Normal(x, theta["sigma"]),
        observation=observation,
        name="seat_belts",
        typical_inputs=inputs,
    )
