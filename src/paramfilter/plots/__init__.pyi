"""The public names of the package, and where each comes from."""

from .animation import animation as animation
from .convergence import convergence as convergence
from .dashboard import dashboard as dashboard
from .error_against_order import error_against_order as error_against_order
from .evidence import evidence as evidence
from .forecast import forecast as forecast
from .forest import forest as forest
from .health import health as health
from .live_view import LiveView as LiveView
from .one_step import one_step as one_step
from .pairs import pairs as pairs
from .parameters import parameters as parameters
from .prior_posterior import prior_posterior as prior_posterior
from .ranks import ranks as ranks
from .state import state as state

__all__: list[str]
