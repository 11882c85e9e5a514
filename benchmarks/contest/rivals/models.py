"""The contest's problems as `paramfilter` models, for the rivals that run on JAX."""

from __future__ import annotations

from collections.abc import Callable

import numpyro.distributions as dist

from paramfilter import models
from paramfilter.model import StateSpaceModel

AR1_PRIOR = {"phi": dist.Normal(0.0, 1.0), "q": dist.InverseGamma(3.0, 2.0), "r": dist.InverseGamma(3.0, 2.0)}
"""The prior of `ar1`: has to be that of `particles_models.AR1_PRIOR`."""

MODELS: dict[str, Callable[[], StateSpaceModel]] = {
    "ar1": lambda: models.linear_gaussian(**AR1_PRIOR),
    "pound_dollar": models.stochastic_volatility,
    "nutria": models.theta_logistic,
}
"""Problems whose model has another name than they."""


def model_of(problem: str) -> StateSpaceModel:
    """Return the model of a problem, priors included."""
    return MODELS[problem]() if problem in MODELS else getattr(models, problem)()
