"""The public names of the package, and where each comes from."""

from .cauchy_ar1 import cauchy_ar1 as cauchy_ar1
from .epidemic import epidemic as epidemic
from .linear_gaussian import linear_gaussian as linear_gaussian
from .multispecies import multispecies as multispecies
from .rainfall_runoff import rainfall_runoff as rainfall_runoff
from .regime_switching import regime_switching as regime_switching
from .sin import sin as sin
from .smooth_transition import smooth_transition as smooth_transition
from .star import star as star
from .stochastic_volatility import stochastic_volatility as stochastic_volatility
from .theta_logistic import theta_logistic as theta_logistic
from .tracking import tracking as tracking

__all__: list[str]
