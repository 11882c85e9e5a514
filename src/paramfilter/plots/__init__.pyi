"""The public names of the package, and where each comes from."""

from .curves import convergence as convergence
from .curves import error_against_order as error_against_order
from .futures import forecast as forecast
from .moving import animation as animation
from .rank_counts import ranks as ranks
from .ribbons import parameters as parameters
from .ribbons import state as state
from .shapes import pairs as pairs
from .shapes import prior_posterior as prior_posterior
from .strips import health as health

__all__: list[str]
