"""Models of the contest; `TRUTH` holds the parameters of each."""

from benchmarks.models.epidemic import epidemic
from benchmarks.models.multispecies import multispecies
from benchmarks.models.rainfall_runoff import rainfall_runoff
from benchmarks.models.smooth_transition import smooth_transition
from benchmarks.models.theta_logistic import theta_logistic

__all__ = ["epidemic", "multispecies", "rainfall_runoff", "smooth_transition", "theta_logistic"]
