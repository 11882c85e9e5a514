"""Learn the static parameters of a state-space model while you filter.

Online, Bayesian, at a cost per observation that does not grow with the length of the stream.
"""

import importlib
from typing import TYPE_CHECKING

from paramfilter import beliefs, models, proposals, resampling, separability, theta_samplers
from paramfilter.backfilling import BackfillReport, Columns, backfill, share_out
from paramfilter.calibration import Calibration, calibrate
from paramfilter.checkpoint import restore, save
from paramfilter.diagnostics import Diagnosis, diagnose, explain
from paramfilter.errors import (
    ArgumentError,
    BeliefError,
    CheckpointError,
    DataError,
    MissingExtraError,
    ModelError,
    ParamfilterError,
    ProposalError,
)
from paramfilter.filters import (
    FilterState,
    ParticleFilter,
    Posterior,
    SkipOutliers,
    StepInfo,
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
from paramfilter.fleet import Fleet, FleetState
from paramfilter.large import LargeFilter, LargeState
from paramfilter.memory import BankState, MemoryBank
from paramfilter.model import StateSpaceModel, simulate
from paramfilter.observations import Observations, observations_from
from paramfilter.outcome import Outcome
from paramfilter.results import open_result, save_result, to_datatree, to_pandas, to_parquet, to_polars
from paramfilter.running import Forecast, History, Summary, join, predict, record, run
from paramfilter.warm_start import start_from_draws

__version__ = "0.1.0"

if TYPE_CHECKING:
    from paramfilter import plots, references

__all__ = [
    "ArgumentError",
    "BackfillReport",
    "BankState",
    "BeliefError",
    "Calibration",
    "Columns",
    "CheckpointError",
    "DataError",
    "Diagnosis",
    "FilterState",
    "Fleet",
    "FleetState",
    "Forecast",
    "History",
    "LargeFilter",
    "LargeState",
    "MemoryBank",
    "MissingExtraError",
    "ModelError",
    "Observations",
    "Outcome",
    "ParamfilterError",
    "ParticleFilter",
    "Posterior",
    "ProposalError",
    "SkipOutliers",
    "StateSpaceModel",
    "StepInfo",
    "Summary",
    "assumed_parameter_filter",
    "auto_filter",
    "backfill",
    "beliefs",
    "calibrate",
    "diagnose",
    "explain",
    "extended_parameter_filter",
    "join",
    "kalman_bank_filter",
    "liu_west_filter",
    "models",
    "nested_particle_filter",
    "observations_from",
    "open_result",
    "particle_bank_filter",
    "plots",
    "predict",
    "proposals",
    "record",
    "references",
    "resampling",
    "restore",
    "run",
    "save",
    "save_result",
    "separability",
    "share_out",
    "simulate",
    "sir_filter",
    "start_from_draws",
    "storvik_filter",
    "theta_samplers",
    "to_datatree",
    "to_pandas",
    "to_parquet",
    "to_polars",
]

LAZY = ("plots", "references")
"""Packages that lean on slow imports of SciPy, and that a filter at work does not need."""


def __getattr__(name: str):
    if name in LAZY:
        return importlib.import_module(f"paramfilter.{name}")
    raise AttributeError(f"module 'paramfilter' has no attribute {name!r}")
