"""What both families share: the filter as its user sees it, records, forecasts, and what tells filters apart."""

from paramfilter.filters.base import Filter, Posterior, figures_of
from paramfilter.filters.engine import Engine, Records
from paramfilter.filters.estimates import ErrorEstimate, Moments
from paramfilter.filters.fingerprint import first_difference
from paramfilter.filters.history import History, Summary
from paramfilter.filters.outliers import OutlierGate
from paramfilter.filters.step_info import StepInfo, tail_probability

__all__ = [
    "Engine",
    "ErrorEstimate",
    "Filter",
    "History",
    "Moments",
    "OutlierGate",
    "Posterior",
    "Records",
    "StepInfo",
    "Summary",
    "figures_of",
    "first_difference",
    "tail_probability",
]
