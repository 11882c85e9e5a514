"""All that a particle filter knows between two observations, and what it tells of a step."""

from __future__ import annotations

from dataclasses import dataclass, field

import jax
from jaxtyping import Array, Bool, Float, Int, PyTree

from paramfilter.filters.step_info import StepInfo, in_brief
from paramfilter.numerics.compensated import CompensatedSum
from paramfilter.types import KeyArray


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ParticleState:
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
        skipped: How many outliers have been skipped in a row, for each component of y.
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
    skipped: PyTree
    outcome: Int[Array, ""]
    fingerprint: str = field(metadata={"static": True})

    @property
    def log_evidence(self) -> Float[Array, ""]:
        """The estimate of log p(y_1..y_t)."""
        return self.running_log_evidence.value

    def __repr__(self) -> str:
        return f"ParticleState({in_brief(self, 'particles')})"


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ParticleInfo(StepInfo):
    """What happened in one step of a particle filter.

    Attributes:
        resampled: Whether particles were resampled before they moved.
        num_nan: Particles for which the model returned NaN.
        approximation_error: By how many nats (rms over the bulk) the particles' beliefs miss the exact ones so far;
            0 for exact beliefs. Above 0.5 the outcome is flagged.
    """

    resampled: Bool[Array, ""]
    num_nan: Int[Array, ""]
    approximation_error: Float[Array, ""]
