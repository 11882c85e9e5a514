"""SIN, the paper's first example (Section 5.1): x' = sin(theta x) + N(0, 1), y = x + N(0, 0.1^2)."""

from __future__ import annotations

import jax.numpy as jnp
import numpyro.distributions as dist

from paramfilter.model import StateSpaceModel

TRUTH = {"theta": 0.7}
"""3.5 prior standard deviations out: at T = 1000 the exact posterior mean is still near 0.66."""


def sin(observation_sd: float = 0.1, prior_sd: float = 0.2) -> StateSpaceModel:
    """Make the sinusoidal model of the paper."""
    return StateSpaceModel(
        prior={"theta": dist.Normal(0.0, prior_sd)},
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, inputs: dist.Normal(jnp.sin(theta["theta"] * x), 1.0),
        observation=lambda theta, x, inputs: dist.Normal(x, observation_sd),
        name="sin",
    )
