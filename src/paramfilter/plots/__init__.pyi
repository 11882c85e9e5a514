"""The public names of the package, and where each comes from."""

from .dashboard import dashboard as dashboard
from .health import health as health
from .over_time import evidence as evidence
from .over_time import forecast as forecast
from .over_time import one_step as one_step
from .over_time import parameters as parameters
from .over_time import state as state
from .prior_posterior import prior_posterior as prior_posterior
from .ranks import ranks as ranks

__all__: list[str]
