"""Draw theta from an unnormalised belief, at a constant cost."""

from paramfilter.beliefs.samplers.base import Here, LogDensity, MarkovSampler, Region, ThetaDraw, ThetaSampler
from paramfilter.beliefs.samplers.chain import Chain
from paramfilter.beliefs.samplers.independence import Independence
from paramfilter.beliefs.samplers.inverse_cdf import CdfTable, InverseCdf, tabulate_values
from paramfilter.beliefs.samplers.random_walk import RandomWalk
from paramfilter.beliefs.samplers.slice import Slice

__all__ = [
    "CdfTable",
    "Chain",
    "Here",
    "Independence",
    "InverseCdf",
    "LogDensity",
    "MarkovSampler",
    "RandomWalk",
    "Region",
    "Slice",
    "ThetaDraw",
    "ThetaSampler",
    "tabulate_values",
]
