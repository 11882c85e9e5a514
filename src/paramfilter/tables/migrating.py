"""Take a series to another model or filter: its old posterior makes a new state.

A function of the user makes the new state. `posterior_as_prior` is such a function: the old posterior of the parameters
becomes the prior of the series under the new model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from paramfilter.errors import DataError, ModelError
from paramfilter.filters import Filter
from paramfilter.gaussian import Gaussian

NUM_DRAWS = 1000
"""Draws of an old posterior that a Gaussian is fitted to."""


@dataclass(frozen=True)
class Series:
    """One series on its way to another filter.

    Attributes:
        name: Its name.
        num_steps: How many steps it has taken.
        old_filter: The filter that it had.
        old_state: Its state there.
        new_filter: The filter that it gets.
        key: A random key of its own.
    """

    name: str
    num_steps: int
    old_filter: Filter
    old_state: Any
    new_filter: Filter
    key: Any

    @cached_property
    def posterior(self) -> Any:
        """What was learned, as `filter.posterior` returns it."""
        return self.old_filter.posterior(self.old_state)

    @cached_property
    def start(self) -> Any:
        """The state of the new filter before any data."""
        return self.new_filter.init(self.key, self.new_filter.model.example_inputs)


Function = Callable[[Series], Any]
"""Makes the new state of a series; None starts it from the new prior."""


def posterior_as_prior(series: Series) -> Any:
    """Start a series with its old posterior as its prior: a Gaussian in the unconstrained coordinates.

    Parameters that only the new model has keep its prior. The state starts from the `initial` of the new model. The new
    filter must be a node filter; particle filters have one prior for all series, so write a function of your own.
    """
    filter = series.new_filter
    if filter.engine.unit != "nodes":
        raise ModelError(
            "posterior_as_prior needs a node filter as the new filter; for other filters give a function that returns "
            "a state."
        )
    parameters = filter.model.parameters
    z = jnp.asarray(parameters.prior_draws[:NUM_DRAWS], float)
    theta = dict(parameters.constrain_all(z))
    learned = series.posterior.sample(jax.random.fold_in(series.key, series.num_steps), len(z))
    common = learned.keys() & theta.keys()
    if not common:
        raise ModelError(f"the models have no parameter in common: {sorted(learned)} and {sorted(theta)}.")
    theta |= {name: jnp.asarray(learned[name]) for name in common}
    z = np.asarray(jax.jit(jax.vmap(parameters.unconstrain))(theta), float)
    if not np.all(np.isfinite(z)):
        raise DataError(f"draws of {series.name!r} are outside the support of the new prior; give another function.")
    try:
        scale = np.linalg.cholesky(np.atleast_2d(np.cov(z, rowvar=False)))
    except np.linalg.LinAlgError as error:
        raise DataError(
            f"draws from the posterior of {series.name!r} have no spread in some direction: perhaps all particles come "
            "from one. Give a function that widens it."
        ) from error
    precision = jnp.result_type(float)
    prior = Gaussian(np.mean(z, axis=0).astype(precision), scale.astype(precision))
    return filter.engine.init(series.key, filter.engine.as_inputs(filter.model.example_inputs), prior)
