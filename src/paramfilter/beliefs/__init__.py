"""What each particle believes about theta: the one part in which the algorithms of this field differ."""

from paramfilter.beliefs.accuracy import ERROR_LIMIT
from paramfilter.beliefs.base import Belief, Blur, BoundBelief, Draw, Moments
from paramfilter.beliefs.chebyshev import Chebyshev
from paramfilter.beliefs.conjugate import Conjugate
from paramfilter.beliefs.cross_interpolation import CrossInterpolation
from paramfilter.beliefs.forgetting import Forgetting
from paramfilter.beliefs.moment_matched import MomentMatched
from paramfilter.beliefs.moved_points import Jitter, ShrinkingKernel
from paramfilter.beliefs.point_mass import PointMass
from paramfilter.beliefs.taylor_of_log_density import TaylorOfLogDensity
from paramfilter.beliefs.taylor_of_mean import TaylorOfMean

__all__ = [
    "ERROR_LIMIT",
    "Belief",
    "Blur",
    "BoundBelief",
    "Chebyshev",
    "Conjugate",
    "CrossInterpolation",
    "Draw",
    "Forgetting",
    "Jitter",
    "MomentMatched",
    "Moments",
    "PointMass",
    "ShrinkingKernel",
    "TaylorOfLogDensity",
    "TaylorOfMean",
]
