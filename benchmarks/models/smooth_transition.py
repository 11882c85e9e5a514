"""A smooth-transition autoregression with nothing known but the noise of the observation: STAR as econometrics fits it.

x' = x (low (1 - G) + high G) + N(0, sigma^2) with G = 1 / (1 + exp(-gamma (x - c))), y = x + N(0, 0.1^2): the
coefficient moves from `low`, far below c, to `high`, far above it. Swapping the two and turning the sign of gamma gives
the same model, so gamma is positive here, unlike in `star`, where the coefficients are known.

T. Terasvirta, Specification, estimation, and evaluation of smooth transition autoregressive models, JASA 89 (1994).
"""

from __future__ import annotations

import jax
import numpyro.distributions as dist

from paramfilter.model import StateSpaceModel

TRUTH = {"gamma": 1.0, "c": 3.0, "low": 0.9, "high": 0.1, "sigma": 1.0}


def smooth_transition(observation_sd: float = 0.1) -> StateSpaceModel:
    """Make the smooth-transition autoregression with five unknowns."""

    def transition(theta, x, inputs):
        switch = jax.nn.sigmoid(theta["gamma"] * (x - theta["c"]))
        return dist.Normal(x * (theta["low"] * (1 - switch) + theta["high"] * switch), theta["sigma"])

    return StateSpaceModel(
        prior={
            "gamma": dist.LogNormal(0.0, 0.5),
            "c": dist.Normal(2.0, 2.0),
            "low": dist.Normal(0.5, 0.5),
            "high": dist.Normal(0.5, 0.5),
            "sigma": dist.LogNormal(0.0, 0.5),
        },
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=transition,
        observation=lambda theta, x, inputs: dist.Normal(x, observation_sd),
        name="smooth_transition",
    )
