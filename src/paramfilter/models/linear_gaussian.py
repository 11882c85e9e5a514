"""A scalar linear-Gaussian model: x' = phi x + N(0, q), y = x + N(0, r). The exact posterior is within reach, so it
judges filters.

Each of phi, q and r is known (a number) or unknown (a prior).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpyro.distributions as dist

from paramfilter.distributions import is_distribution
from paramfilter.errors import ModelError
from paramfilter.model import StateSpaceModel

TRUTH = {"phi": 0.8, "q": 1.0, "r": 1.0}


def linear_gaussian(
    phi: Any = dist.Normal(0.3, 0.2),
    q: Any = 1.0,
    r: Any = 0.25,
    initial_variance: float = 1.0,
) -> StateSpaceModel:
    """Make an autoregression observed with noise.

    Args:
        phi: Coefficient, or its prior.
        q: Process variance, or its prior.
        r: Observation variance, or its prior.
        initial_variance: Variance of x_0 around 0.
    """
    given = {"phi": phi, "q": q, "r": r}
    unknown = {name: value for name, value in given.items() if is_distribution(value)}
    if not unknown:
        raise ModelError(
            "linear_gaussian needs at least one prior among phi, q and r, for example phi=dist.Normal(0.0, 0.5)."
        )

    def value(name, theta):
        return theta[name] if name in unknown else given[name]

    return StateSpaceModel(
        prior=unknown,
        initial=lambda theta, inputs: dist.Normal(0.0, jnp.sqrt(initial_variance)),
        transition=lambda theta, x, inputs: dist.Normal(value("phi", theta) * x, jnp.sqrt(value("q", theta))),
        observation=lambda theta, x, inputs: dist.Normal(x, jnp.sqrt(value("r", theta))),
        name="linear_gaussian",
    )
