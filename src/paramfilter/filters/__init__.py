"""The loop, its state, the posterior, and the named algorithms."""

from paramfilter.filters.advance import History, Summary
from paramfilter.filters.base import Filter
from paramfilter.filters.fingerprint import first_difference
from paramfilter.filters.guard import keep_where
from paramfilter.filters.outliers import SkipOutliers
from paramfilter.filters.particle_filter import ParticleFilter
from paramfilter.filters.posterior import Posterior, draw_joint, mixture_moments, pooled
from paramfilter.filters.state import FilterState, StepInfo

__all__ = [
    "Filter",
    "FilterState",
    "History",
    "ParticleFilter",
    "Posterior",
    "SkipOutliers",
    "StepInfo",
    "Summary",
    "draw_joint",
    "first_difference",
    "keep_where",
    "mixture_moments",
    "pooled",
]
