"""What each particle believes about theta: the one part in which the algorithms of this field differ."""

from paramfilter.beliefs.base import Absorbed, Belief, BoundBelief, Datum, Draw, Moments
from paramfilter.beliefs.conjugate import Conjugate
from paramfilter.beliefs.point_mass import PointMass
from paramfilter.beliefs.taylor_of_log_density import TaylorOfLogDensity
from paramfilter.beliefs.taylor_of_mean import TaylorOfMean

__all__ = [
    "Absorbed",
    "Belief",
    "BoundBelief",
    "Conjugate",
    "Datum",
    "Draw",
    "Moments",
    "PointMass",
    "TaylorOfLogDensity",
    "TaylorOfMean",
]
