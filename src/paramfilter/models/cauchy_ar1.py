"""Cauchy AR(1), the paper's second example (Section 5.2): x' = a x + Cauchy(0, 1), y = x + N(0, 10^2).

The scale of the shocks is 1 in the paper. Here it may be unknown as well:

>>> import numpyro.distributions as dist
>>> list(cauchy_ar1(scale=dist.LogNormal(0.0, 0.5)).prior)
['a', 'scale']
"""

from __future__ import annotations

from typing import Any

import numpyro.distributions as dist

from paramfilter.distributions import is_distribution
from paramfilter.model import StateSpaceModel

TRUTH = {"a": 0.7}
TRUTH_WITH_SCALE = {"a": 0.7, "scale": 1.0}
"""For a model whose scale has a prior."""


def cauchy_ar1(observation_sd: float = 10.0, prior_sd: float = 0.2, scale: Any = 1.0) -> StateSpaceModel:
    """Make the heavy-tailed autoregression of the paper.

    Args:
        observation_sd: Of y given x.
        prior_sd: Of the coefficient a, around 0.
        scale: Of the Cauchy shocks, or its prior, for example `dist.LogNormal(0.0, 0.5)`.
    """
    unknown = {"scale": scale} if is_distribution(scale) else {}
    return StateSpaceModel(
        prior={"a": dist.Normal(0.0, prior_sd), **unknown},
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, inputs: dist.Cauchy(theta["a"] * x, theta["scale"] if unknown else scale),
        observation=lambda theta, x, inputs: dist.Normal(x, observation_sd),
        name="cauchy_ar1",
    )
