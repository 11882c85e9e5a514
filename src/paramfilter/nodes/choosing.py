"""Which inner filter suits a model, and how many nodes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from paramfilter.errors import ModelError
from paramfilter.inspect.once import once_per_model
from paramfilter.model import StateSpaceModel
from paramfilter.nodes.inner.assumed_density import AssumedDensity
from paramfilter.nodes.inner.base import InnerFilter
from paramfilter.nodes.inner.counts import Counts
from paramfilter.nodes.inner.finite import FiniteState
from paramfilter.nodes.inner.guided import Guided
from paramfilter.nodes.inner.kalman import Kalman
from paramfilter.nodes.inner.linear_predictor import LinearPredictor
from paramfilter.nodes.inner.particles import Particles
from paramfilter.nodes.inner_check import finer_than

FEW, MANY = 2, 5
"""Parameters up to which few nodes are enough, and from which on many are needed."""
NODES_FOR_FEW, NODES, NODES_FOR_MANY = 512, 1024, 2048
MOST_PARAMETERS = 20
"""That `auto_filter` takes. From 13 on a posterior may say that too few nodes are effective."""
NUM_KEPT = 16384
"""Observations kept by default: 64 kB for a scalar series."""


@dataclass(frozen=True)
class Choice:
    """An inner filter and why it was chosen."""

    inner: InnerFilter
    reason: str


@once_per_model
def choose_inner(model: StateSpaceModel) -> Choice:
    """Return the inner filter that is exact for a model, or the best that is not: particles take any."""
    tries = (
        (Kalman, "linear and Gaussian given theta"),
        (FiniteState, "the state has few values"),
        (Counts, "the state is a count"),
        (Guided, "Gaussian moves, observed linearly"),
        (LinearPredictor, "linear Gaussian moves behind one linear predictor"),
        (AssumedDensity, "a state of real numbers"),
    )
    for kind, reason in tries:
        with suppress(ModelError):
            return choice_of(kind.bind(model), reason)
    return choice_of(Particles.bind(model), "no filter without random numbers takes this state")


def choice_of(inner: InnerFilter, reason: str) -> Choice:
    """Return the choice of an inner filter, which says whether it is exact, and if not, whether it can be checked."""
    if inner.is_exact:
        return Choice(inner, f"{reason}: exact")
    checked = "checked by posterior.error()" if finer_than(inner) is not None else "not checked"
    return Choice(inner, f"{reason}: approximate, {checked}")


def usual_nodes(model: StateSpaceModel, inner: InnerFilter) -> int:
    """Return how many nodes suit a model."""
    dimension = model.parameters.dimension
    number = NODES_FOR_FEW if dimension <= FEW else NODES if dimension < MANY else NODES_FOR_MANY
    return number if inner.is_exact or dimension <= FEW else number // 2
