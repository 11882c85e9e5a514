"""Example models, each a function that returns a `StateSpaceModel`; `TRUTH` holds the parameters of its benchmark."""

from paramfilter.models.cauchy_ar1 import cauchy_ar1
from paramfilter.models.linear_gaussian import linear_gaussian
from paramfilter.models.sin import sin
from paramfilter.models.star import star
from paramfilter.models.stochastic_volatility import stochastic_volatility

__all__ = ["cauchy_ar1", "linear_gaussian", "sin", "star", "stochastic_volatility"]
