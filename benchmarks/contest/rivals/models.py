"""The contest's problems as `paramfilter` models, for the rivals that run on JAX."""

from __future__ import annotations

from benchmarks.problems import CONTEST, PROBLEMS
from paramfilter.model import StateSpaceModel


def model_of(problem: str) -> StateSpaceModel:
    """Return the model of a problem, priors included."""
    return (PROBLEMS | CONTEST)[problem].model()
