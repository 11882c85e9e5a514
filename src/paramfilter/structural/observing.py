"""Distributions of an observation given the linear predictor eta.

gaussian             y ~ N(eta, sd^2)
student_t            y ~ eta + scale t(degrees of freedom)
poisson              y ~ Poisson(exposure exp(eta))
negative_binomial    mean mu = exposure exp(eta), variance mu + mu^2 / concentration
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpyro.distributions as dist

from paramfilter.arguments import kind_of
from paramfilter.errors import ArgumentError
from paramfilter.structural.component import Given, Parameter, Values, half_normal
from paramfilter.types import Inputs

LARGEST_LOG_RATE = 21.0
"""Of counts, which are 32-bit integers when they are drawn; exp(89) would overflow a float."""
SMALLEST = 1e-12
"""Of a fixed scale, which must be positive: the observation needs a density."""


@dataclass(frozen=True, eq=False)
class ObservationKind:
    """The distribution of an observation given eta. The functions of `pf.structural` make it.

    Attributes:
        law: `(values, eta, inputs) ->` the distribution of y.
        parameters: Its parameters by name.
        inputs: Shapes of the inputs that it reads, by name.
    """

    law: Callable[[Values, Any, Inputs], Any]
    parameters: Mapping[str, Parameter]
    inputs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def gaussian(sd: Given = None) -> ObservationKind:
    """Observe eta with Gaussian noise. `auto_filter` then runs exact Kalman filters.

    Args:
        sd: Standard deviation, "observation_sd": a prior, or a number above 0; None selects `HalfNormal(scale)`.
    """
    return ObservationKind(
        lambda values, eta, inputs: dist.Normal(eta, values["observation_sd"]),
        {"observation_sd": Parameter(sd, half_normal(1.0), SMALLEST)},
    )


def student_t(scale: Given = None, degrees_of_freedom: Given = None) -> ObservationKind:
    """Observe eta with noise that has outliers.

    Args:
        scale: Scale of the noise, "observation_scale": a prior, or a number above 0; None selects `HalfNormal(scale)`
            with the scale of the model.
        degrees_of_freedom: A prior or a number; None selects `Gamma(2, 0.1)`. Small values mean many outliers.
    """
    return ObservationKind(
        lambda values, eta, inputs: dist.StudentT(values["degrees_of_freedom"], eta, values["observation_scale"]),
        {
            "observation_scale": Parameter(scale, half_normal(1.0), SMALLEST),
            "degrees_of_freedom": Parameter(degrees_of_freedom, lambda scale: dist.Gamma(2.0, 0.1), SMALLEST),
        },
    )


def poisson(exposure: str | None = None) -> ObservationKind:
    """Observe counts with the log rate eta, whose variance is the mean.

    Args:
        exposure: Name of an input that multiplies the rate, such as the population or the hours of observation.

    Example:
        >>> import paramfilter as pf
        >>> st = pf.structural
        >>> st.model(st.local_level(), st.poisson(exposure="population")).example_inputs
        {'population': 1.0}
    """
    return ObservationKind(
        lambda values, eta, inputs: dist.Poisson(_rate(eta, exposure, inputs)), {}, _exposure_shape(exposure)
    )


def negative_binomial(concentration: Given = None, exposure: str | None = None) -> ObservationKind:
    """Observe counts with the log mean eta, whose variance exceeds the mean.

    Args:
        concentration: A prior or a number; None selects `LogNormal(log(10), 1.5)`. The variance is mu + mu^2 /
            concentration, so a large value means nearly Poisson.
        exposure: Name of an input that multiplies the mean, such as the population.
    """

    def law(values, eta, inputs):
        return dist.NegativeBinomial2(_rate(eta, exposure, inputs), values["concentration"])

    usual = lambda scale: dist.LogNormal(math.log(10.0), 1.5)
    return ObservationKind(law, {"concentration": Parameter(concentration, usual, SMALLEST)}, _exposure_shape(exposure))


def _rate(eta: Any, exposure: str | None, inputs: Inputs) -> Any:
    log_rate = eta if exposure is None else eta + jnp.log(inputs[exposure])
    return jnp.exp(jnp.minimum(log_rate, LARGEST_LOG_RATE))


def _exposure_shape(exposure: Any) -> dict[str, tuple[int, ...]]:
    if exposure is None or isinstance(exposure, str):
        return {} if exposure is None else {exposure: ()}
    raise ArgumentError(
        f'exposure must be the name of an input, such as "population", got {kind_of(exposure)}. Pass its values as '
        "inputs to run and predict."
    )
