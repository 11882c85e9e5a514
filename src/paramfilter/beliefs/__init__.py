"""What a particle that fixes a state knows about theta: one class for each representation."""

from paramfilter.beliefs.accuracy import ERROR_LIMIT
from paramfilter.beliefs.base import Belief, BoundBelief, Draw, MarginalTransition, Moments
from paramfilter.beliefs.conjugate import Conjugate
from paramfilter.beliefs.cross_interpolation import CrossInterpolation
from paramfilter.beliefs.grid import Grid
from paramfilter.beliefs.moved_points import ShrinkingKernel
from paramfilter.beliefs.point_mass import PointMass
from paramfilter.beliefs.taylor_of_log_density import TaylorOfLogDensity
from paramfilter.beliefs.taylor_of_mean import TaylorOfMean

__all__ = [
    "ERROR_LIMIT",
    "Belief",
    "MarginalTransition",
    "BoundBelief",
    "Conjugate",
    "CrossInterpolation",
    "Draw",
    "Grid",
    "Moments",
    "PointMass",
    "ShrinkingKernel",
    "TaylorOfLogDensity",
    "TaylorOfMean",
]
