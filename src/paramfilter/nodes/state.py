"""State is what the next step needs: the nodes, what each knows of the state, and the data that are kept."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import jax
from jaxtyping import Bool, Float, Int, PyTree

from paramfilter.filters.step_info import StepInfo, in_brief
from paramfilter.nodes.inner.base import Constants, InnerState
from paramfilter.nodes.proposals import Prior
from paramfilter.numerics.compensated import CompensatedSum
from paramfilter.types import Inputs, KeyArray, Numbers, Observation, Theta


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Nodes:
    """N values of theta, and what each knows; weights are exp(log_prior + log_likelihood - log_proposal).

    Attributes:
        z: The values, in unconstrained coordinates.
        theta: The same on the natural scale.
        constants: What the inner filter needs of theta.
        x: What the inner filter knows of the state; nodes are the last axis.
        log_prior: log p(z).
        log_proposal: Log density of the distribution that the nodes were drawn from.
        log_likelihood: log p(y_1..y_t | z), less `offset`.
        offset: What was taken off the log likelihoods, so that the largest stays near zero and keeps its digits.
        faded: What forgetting has taken off the log evidence; 0 if nothing is forgotten.
        log_total: Log of the sum of the weights.
        ess: Their effective sample size.
    """

    z: Float[Numbers, "node param"]
    theta: Theta
    constants: Constants
    x: InnerState
    log_prior: Float[Numbers, " node"]
    log_proposal: Float[Numbers, " node"]
    log_likelihood: Float[Numbers, " node"]
    offset: CompensatedSum
    faded: CompensatedSum
    log_total: Float[Numbers, ""]
    ess: Float[Numbers, ""]

    @property
    def log_weights(self) -> Float[Numbers, " node"]:
        """Unnormalised, of the posterior given all that was observed."""
        return self.log_prior + self.log_likelihood - self.log_proposal

    @property
    def log_normalizer(self) -> Float[Numbers, ""]:
        """Log of the integral of prior times likelihood, in which old observations count less if the filter forgets."""
        return self.offset.total + (self.offset.lost + self.log_total - math.log(len(self.log_prior)))

    @property
    def log_flat(self) -> Float[Numbers, " node"]:
        """The same with the square root of the likelihood."""
        return self.log_prior + 0.5 * self.log_likelihood - self.log_proposal


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Kept:
    """What new nodes begin from: the prior, and the first observations, as many as there is room for.

    A filter that forgets keeps the last observations in place of the first.

    Attributes:
        ys: Observations, with a leading axis of time.
        inputs: What the model was told with each.
        initial_inputs: What the model's `initial` was told.
        prior: The prior of theta.
        starts: If the filter forgets: inner state and `offset` of the heaviest node at two times from which replays may
            begin, with a leading axis; else None.
    """

    ys: Observation
    inputs: Inputs
    initial_inputs: Inputs
    prior: Prior
    starts: PyTree = None


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class NodeState:
    """All that a node filter knows after t observations: a pytree of fixed size.

    Attributes:
        key: The filter's random key: lattices are shifted by what is derived from it and from `time`.
        time: How many observations have been taken in.
        nodes: The nodes.
        kept: The first observations.
        trigger: Nodes are renewed when the effective sample size falls below this.
        skipped: How many outliers have been skipped in a row, for each component of y.
        surface_error: Squared error of the posterior mean, in posterior variances, that surfaces have added so far.
        outcome: All flags raised so far (see `paramfilter.Outcome`).
        fingerprint: Fingerprint of the filter the state belongs to.
    """

    key: KeyArray
    time: Int[Numbers, ""]
    nodes: Nodes
    kept: Kept
    trigger: Float[Numbers, ""]
    skipped: PyTree
    surface_error: Float[Numbers, " param"]
    outcome: Int[Numbers, ""]
    fingerprint: str = field(metadata={"static": True})

    @property
    def log_evidence(self) -> Float[Numbers, ""]:
        """The estimate of log p(y_1..y_t): the sum of the log densities of all one-step forecasts."""
        return self.nodes.log_normalizer + self.nodes.faded.value

    def __repr__(self) -> str:
        return f"NodeState({in_brief(self, 'nodes')})"


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class NodeInfo(StepInfo):
    """What happened in one step of a node filter.

    Attributes:
        renewed: Whether nodes were renewed after the step.
        surface_error: By how many posterior sds surfaces may have moved the mean so far.
    """

    renewed: Bool[Numbers, ""]
    surface_error: Float[Numbers, ""]
