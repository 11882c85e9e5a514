"""What happened in one step, and how a state is described in a line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from paramfilter.tracing import is_traced, numbers

NUM_FORECASTS = 100
"""Particles that foretell the observation before they see it."""


def in_brief(state: Any, unit: str) -> str:
    """Describe a state in a line: the model, how many steps, and the filter; no array is listed."""
    made = json.loads(state.fingerprint)
    size = f"{made['particles']} {unit}, {made['belief']}"
    has_value = isinstance(state.time, jax.Array | np.ndarray | np.generic) and not is_traced(state.time)
    if not has_value or np.shape(state.time):  # being compiled, or the states of a fleet
        return f"{made['model']}, {size}"
    return f"{made['model']} after {int(state.time)} steps, {size}"


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class StepInfo:
    """What happened in one step, whatever the filter; each family adds its own.

    Attributes:
        ess: Effective sample size after weighting; 0 if the step failed.
        log_evidence_increment: log p(y_t | y_1..y_{t-1}); 0 for a missing or refused observation, -inf if the step
            failed.
        outcome: Flags of this step, 0 if all is well; `paramfilter.explain` puts them in words.
        forecast: Quantiles (5, 25, 50, 75, 95 %) of the forecast of y, made before y was seen, on a leading axis. Of a
            node filter: of a normal distribution with the mean and variance of the forecast.
        pit: Rank of y among the forecasts, between 0 and 1, for each component: uniform if the model is right; NaN if
            missing.
    """

    ess: Float[Array, ""]
    log_evidence_increment: Float[Array, ""]
    outcome: Int[Array, ""]
    forecast: PyTree
    pit: PyTree

    @property
    def tail_probability(self) -> PyTree:
        """How surprising y was: the probability of a y as far out in its forecast, for each component.

        It is uniform between 0 and 1 if the model is right, so an alarm at 0.001 is false once in 1,000 observations.
        """
        return tail_probability(self.pit)


def tail_probability(pit: PyTree) -> PyTree:
    """Return the probability of an observation as far out in its forecast as one at these places."""
    return jax.tree.map(lambda leaf: 2 * numbers(leaf).minimum(leaf, 1 - leaf), pit)
