"""Cauchy AR(1), the paper's second example (Section 5.2): x' = a x + Cauchy(0, 1), y = x + N(0, 10^2)."""

from __future__ import annotations

import numpyro.distributions as dist

from paramfilter.model import StateSpaceModel

TRUTH = {"a": 0.7}


def cauchy_ar1(observation_sd: float = 10.0, prior_sd: float = 0.2) -> StateSpaceModel:
    """Make the heavy-tailed autoregression of the paper."""
    return StateSpaceModel(
        prior={"a": dist.Normal(0.0, prior_sd)},
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, inputs: dist.Cauchy(theta["a"] * x, 1.0),
        observation=lambda theta, x, inputs: dist.Normal(x, observation_sd),
        name="cauchy_ar1",
    )
