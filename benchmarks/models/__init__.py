"""Models of the contest; `TRUTH` holds the parameters of those whose data are simulated."""

from benchmarks.models.common_factor import common_factor
from benchmarks.models.epidemic import epidemic
from benchmarks.models.fitzhugh_nagumo import fitzhugh_nagumo
from benchmarks.models.inflation import inflation
from benchmarks.models.multispecies import multispecies
from benchmarks.models.rainfall_runoff import rainfall_runoff
from benchmarks.models.seat_belts import seat_belts
from benchmarks.models.theta_logistic import theta_logistic

__all__ = [
    "common_factor",
    "epidemic",
    "fitzhugh_nagumo",
    "inflation",
    "multispecies",
    "rainfall_runoff",
    "seat_belts",
    "theta_logistic",
]
