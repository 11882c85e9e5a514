"""Inner filters: the distribution of the state given theta, for all nodes at once."""

from paramfilter.nodes.inner.assumed_density import AssumedDensity
from paramfilter.nodes.inner.base import InnerFilter
from paramfilter.nodes.inner.counts import Counts
from paramfilter.nodes.inner.finite import FiniteState
from paramfilter.nodes.inner.guided import Guided
from paramfilter.nodes.inner.kalman import Kalman
from paramfilter.nodes.inner.linear_predictor import LinearPredictor
from paramfilter.nodes.inner.particles import Particles

__all__ = ["AssumedDensity", "Counts", "FiniteState", "Guided", "InnerFilter", "Kalman", "LinearPredictor", "Particles"]
