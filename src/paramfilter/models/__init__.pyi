"""The public names of the package, and where each comes from."""

from .cauchy_ar1 import cauchy_ar1 as cauchy_ar1
from .linear_gaussian import linear_gaussian as linear_gaussian
from .regime_switching import regime_switching as regime_switching
from .sin import sin as sin
from .star import star as star
from .stochastic_volatility import stochastic_volatility as stochastic_volatility
from .tracking import tracking as tracking

__all__: list[str]
