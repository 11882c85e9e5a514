"""Draw theta from an unnormalised belief, at a constant cost."""

from paramfilter.theta_samplers.base import Here, LogDensity, MarkovSampler, Region, ThetaDraw, ThetaSampler
from paramfilter.theta_samplers.chain import Chain
from paramfilter.theta_samplers.independence import Independence
from paramfilter.theta_samplers.inverse_cdf import CdfTable, InverseCdf, tabulate_values
from paramfilter.theta_samplers.random_walk import RandomWalk
from paramfilter.theta_samplers.slice import Slice

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
