"""The loop, its state, the posterior, and the named algorithms."""

from paramfilter.filters.advance import History, Summary
from paramfilter.filters.base import Filter
from paramfilter.filters.fingerprint import first_difference
from paramfilter.filters.guard import keep_where
from paramfilter.filters.mixing import AncestorMixing, Mixing, NoMixing, PairwiseMixing
from paramfilter.filters.outliers import OutlierGate
from paramfilter.filters.particle_filter import ParticleFilter
from paramfilter.filters.posterior import Posterior, draw_joint, mixture_moments, pooled
from paramfilter.filters.state import FilterState, StepInfo, tail_probability

__all__ = [
    "AncestorMixing",
    "Filter",
    "FilterState",
    "History",
    "Mixing",
    "NoMixing",
    "PairwiseMixing",
    "ParticleFilter",
    "Posterior",
    "OutlierGate",
    "StepInfo",
    "Summary",
    "draw_joint",
    "first_difference",
    "keep_where",
    "mixture_moments",
    "pooled",
    "tail_probability",
]
