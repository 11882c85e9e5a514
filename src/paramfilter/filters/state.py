"""State is what the next step needs; Info is what happened."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from paramfilter.filters.health import Lineage
from paramfilter.numerics.compensated import CompensatedSum
from paramfilter.tracing import is_traced, numbers
from paramfilter.types import KeyArray


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class FilterState:
    """All that a filter knows after t observations: a pytree of fixed size.

    Attributes:
        key: The filter's random key; the key of a step is derived from it and from `time`.
        time: How many observations have been taken in.
        x: States of the particles.
        z: The theta each particle moved with last, in unconstrained coordinates.
        shared: What all beliefs have in common.
        statistics: What each particle remembers about theta.
        log_weights: Normalised log weights.
        running_log_evidence: log p(y_1..y_t), as a compensated sum.
        lineage: Where the particles come from.
        skipped: How many outliers have been skipped in a row, for each component of y.
        last_mixed: When beliefs were last mixed from two ancestors; -1 if never.
        outcome: All flags raised so far (see `paramfilter.Outcome`).
        fingerprint: Fingerprint of the filter the state belongs to; not an array, so it costs nothing in a step.
    """

    key: KeyArray
    time: Int[Array, ""]
    x: PyTree
    z: Float[Array, "particle param"]
    shared: PyTree
    statistics: PyTree
    log_weights: Float[Array, " particle"]
    running_log_evidence: CompensatedSum
    lineage: Lineage
    skipped: PyTree
    last_mixed: Int[Array, ""]
    outcome: Int[Array, ""]
    fingerprint: str = field(metadata={"static": True})

    @property
    def log_evidence(self) -> Float[Array, ""]:
        """The estimate of log p(y_1..y_t)."""
        return self.running_log_evidence.value

    def __repr__(self) -> str:
        return f"FilterState({in_brief(self)})"


def in_brief(state: Any) -> str:
    """Describe a state in a line: the model, how many steps, and the filter; no array is listed."""
    made = json.loads(state.fingerprint)
    size = f"{made['particles']} {'nodes' if 'kept' in made else 'particles'}, {made['belief']}"
    has_value = isinstance(state.time, jax.Array | np.ndarray | np.generic) and not is_traced(state.time)
    if not has_value or np.shape(state.time):  # being compiled, or the states of a fleet
        return f"{made['model']}, {size}"
    return f"{made['model']} after {int(state.time)} steps, {size}"


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class StepInfo:
    """What happened in one step.

    Attributes:
        ess: Effective sample size after weighting; 0 if the step failed.
        log_evidence_increment: log p(y_t | y_1..y_{t-1}); 0 for a missing or refused observation, -inf if the step
            failed.
        outcome: Flags of this step, 0 if all is well; `paramfilter.explain` puts them in words.
        resampled: Whether particles were resampled before they moved.
        num_nan: Particles for which the model returned NaN.
        approximation_error: By how many nats (rms over the bulk) the particles' beliefs miss the exact ones so far;
            0 for exact beliefs. Above 0.5 the outcome is flagged. Of a node filter: by how many posterior sds surfaces
            may have moved the mean so far.
        rhat: How far islands disagree about each coordinate of theta: 1 if they agree, NaN if there is only one.
        num_unique_ancestors: Distinct ancestors behind the particles, at a time between t/4 and t/2.
        forecast: Quantiles (5, 25, 50, 75, 95 %) of the forecast of y, made before y was seen, on a leading axis. Of a
            node filter: of a normal distribution with the mean and variance of the forecast.
        pit: Rank of y among the forecasts, between 0 and 1, for each component: uniform if the model is right; NaN if
            missing.
    """

    ess: Float[Array, ""]
    log_evidence_increment: Float[Array, ""]
    outcome: Int[Array, ""]
    resampled: Bool[Array, ""]
    num_nan: Int[Array, ""]
    approximation_error: Float[Array, ""]
    rhat: Float[Array, " param"]
    num_unique_ancestors: Int[Array, ""]
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
