"""Example models, each a function that returns a `StateSpaceModel`; `TRUTH` holds the parameters of its benchmark."""

from paramfilter.models.cauchy_ar1 import cauchy_ar1
from paramfilter.models.linear_gaussian import linear_gaussian
from paramfilter.models.multispecies import multispecies
from paramfilter.models.sin import sin
from paramfilter.models.smooth_transition import smooth_transition
from paramfilter.models.star import star
from paramfilter.models.stochastic_volatility import stochastic_volatility
from paramfilter.models.theta_logistic import theta_logistic

__all__ = [
    "cauchy_ar1",
    "linear_gaussian",
    "multispecies",
    "sin",
    "smooth_transition",
    "star",
    "stochastic_volatility",
    "theta_logistic",
]
