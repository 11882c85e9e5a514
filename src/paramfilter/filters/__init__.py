"""The loop, its state, the posterior, and the named algorithms."""

from paramfilter.filters.choosing import USUAL_PARTICLES, choose_algorithm, choose_belief
from paramfilter.filters.fingerprint import first_difference
from paramfilter.filters.loop import keep_where
from paramfilter.filters.outliers import SkipOutliers
from paramfilter.filters.particle_filter import ParticleFilter
from paramfilter.filters.posterior import Posterior, draw_joint, mixture_moments, pooled
from paramfilter.filters.presets import (
    PRESETS,
    assumed_parameter_filter,
    auto_filter,
    extended_parameter_filter,
    kalman_bank_filter,
    liu_west_filter,
    nested_particle_filter,
    particle_bank_filter,
    sir_filter,
    storvik_filter,
)
from paramfilter.filters.state import FilterState, StepInfo

__all__ = [
    "FilterState",
    "PRESETS",
    "ParticleFilter",
    "Posterior",
    "SkipOutliers",
    "StepInfo",
    "USUAL_PARTICLES",
    "assumed_parameter_filter",
    "auto_filter",
    "choose_algorithm",
    "choose_belief",
    "draw_joint",
    "extended_parameter_filter",
    "first_difference",
    "keep_where",
    "kalman_bank_filter",
    "liu_west_filter",
    "mixture_moments",
    "nested_particle_filter",
    "particle_bank_filter",
    "pooled",
    "sir_filter",
    "storvik_filter",
]
