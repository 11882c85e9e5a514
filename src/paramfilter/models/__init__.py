"""Example models, each a function that returns a `StateSpaceModel`; `TRUTH` holds the parameters of its benchmark."""

from paramfilter.models.cauchy_ar1 import cauchy_ar1
from paramfilter.models.epidemic import epidemic
from paramfilter.models.linear_gaussian import linear_gaussian
from paramfilter.models.multispecies import multispecies
from paramfilter.models.rainfall_runoff import rainfall_runoff
from paramfilter.models.regime_switching import regime_switching
from paramfilter.models.sin import sin
from paramfilter.models.smooth_transition import smooth_transition
from paramfilter.models.star import star
from paramfilter.models.stochastic_volatility import stochastic_volatility
from paramfilter.models.theta_logistic import theta_logistic
from paramfilter.models.tracking import tracking

__all__ = [
    "cauchy_ar1",
    "epidemic",
    "linear_gaussian",
    "multispecies",
    "rainfall_runoff",
    "regime_switching",
    "sin",
    "smooth_transition",
    "star",
    "stochastic_volatility",
    "theta_logistic",
    "tracking",
]
