"""The series that the paper prints: not Taylor series in theta at a point, but in a quantity that theta enters.

- SIN (Section 5.1): sin(theta x) in powers of theta x, which is the same as in powers of theta: `TaylorOfMean(7, 0.0)`;
- Cauchy (5.2): log(1 + v^2) = v^2 - v^4/2 + v^6/3 - ..., in powers of the shock v = x' - a x;
- STAR (5.3): 1 / (1 + e^-u) = 1/2 + u/4 - u^3/48 + ..., in powers of u = gamma (x - c).

Cut off, each makes another model, whose log density is a polynomial of theta. `PrintedSeries` lets particles believe
in that model while they move by the true one, as Algorithm 3 does; a Taylor belief finds a polynomial's coefficients
exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float

from paramfilter.inspect.dependence import ThetaFactors
from paramfilter.model import StateSpaceModel
from paramfilter.models import cauchy_ar1, star
from paramfilter.particles.belief import Belief
from paramfilter.particles.log_polynomial import LogPolynomial
from paramfilter.particles.taylor import TaylorBelief, TaylorOfLogDensity, TaylorOfMean


@dataclass(frozen=True)
class PrintedSeries(Belief):
    """Believe in a model that was cut off, and report how far it is from the model of the filter.

    Args:
        belief: A Taylor belief of an order that holds the whole polynomial.
        cut_off: The model with the paper's series in it; its prior is that of the filter's model.
        name: What the series is called.
    """

    belief: TaylorBelief
    cut_off: StateSpaceModel
    name: str

    def bind(self, model: StateSpaceModel) -> LogPolynomial:
        """Fit the belief to the series, and its report of errors to the model."""
        return replace(self.belief.bind(self.cut_off), model=model, exact=ThetaFactors(model).step, name=self.name)


def printed_cauchy(order: int = 10) -> Belief:
    """Return the belief of Section 5.2: log(1 + v^2) up to v^order, a polynomial of the same degree in a."""
    belief = TaylorOfLogDensity(order, center=0.0)
    return PrintedSeries(belief, cauchy_with_series(order), f"log(1 + v^2) to order {order}")


def printed_star(order: int = 9) -> Belief:
    """Return the belief of Section 5.3: the logistic function up to u^order, drawn from by one Metropolis step.

    A power of gamma (x - c) has twice its degree in gamma and c together. The center is free, for the polynomial is
    the same; this one cancels least.
    """
    belief = TaylorOfMean(2 * order, center={"gamma": 0.0, "c": 3.0})
    return PrintedSeries(belief, star_with_series(order), f"1/(1 + exp(-u)) to order {order}")


class CauchyByItsSeries(dist.Cauchy):
    """A Cauchy law whose log density is cut off; not a law any more where the last power is positive."""

    def __init__(self, loc: Any, order: int):
        self.order = order
        super().__init__(loc, 1.0)

    def log_prob(self, value: Any, intermediates: Any = None) -> Float[Array, "..."]:
        """Return -log pi - (v^2 - v^4/2 + v^6/3 - ...)."""
        return -jnp.log(jnp.pi) - polynomial(log_coefficients(self.order), jnp.asarray(value - self.loc))


@cache
def cauchy_with_series(order: int) -> StateSpaceModel:
    """Make the Cauchy autoregression with its log density cut off."""
    return replace(cauchy_ar1(), transition=lambda theta, x, inputs: CauchyByItsSeries(theta["a"] * x, order))


@cache
def star_with_series(order: int) -> StateSpaceModel:
    """Make the smooth-transition autoregression with its switch cut off."""

    def transition(theta, x, inputs):
        switch = polynomial(logistic_coefficients(order), theta["gamma"] * (x - theta["c"]))
        return dist.Normal(0.9 * x * (1 - switch) + 0.1 * x * switch, 1.0)

    return replace(star(), transition=transition)


def polynomial(coefficients: np.ndarray, at: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return sum_k c_k at^k, by Horner's rule."""
    total = jnp.zeros_like(at)
    for coefficient in coefficients[::-1]:
        total = total * at + float(coefficient)
    return total


def log_coefficients(order: int) -> np.ndarray:
    """Return the Taylor coefficients of log(1 + v^2) at 0; its radius of convergence is 1.

    >>> log_coefficients(6)
    array([ 0.        ,  0.        ,  1.        ,  0.        , -0.5       ,
            0.        ,  0.33333333])
    """
    coefficients = np.zeros(order + 1)
    for half in range(1, order // 2 + 1):
        coefficients[2 * half] = -((-1) ** half) / half
    return coefficients


def logistic_coefficients(order: int) -> np.ndarray:
    """Return the Taylor coefficients of 1 / (1 + e^-u) at 0; its radius of convergence is pi.

    From its equation G' = G - G^2, power by power:

    >>> 1 / logistic_coefficients(5)[[0, 1, 3, 5]]
    array([  2.,   4., -48., 480.])
    """
    coefficients = np.zeros(order + 1)
    coefficients[0] = 0.5
    for power in range(order):
        square = coefficients[: power + 1] @ coefficients[power::-1]
        coefficients[power + 1] = (coefficients[power] - square) / (power + 1)
    return coefficients
