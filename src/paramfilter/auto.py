"""What suits a model: an algorithm, a belief, a proposal. Each choice comes with its reason, for the user to read."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp

from paramfilter.beliefs import Belief, Conjugate, CrossInterpolation, Grid
from paramfilter.errors import ProposalError
from paramfilter.inspect.cross import FEW_PARAMETERS, cross_of_prior
from paramfilter.inspect.probe import probe
from paramfilter.inspect.report import advice_for
from paramfilter.model import StateSpaceModel
from paramfilter.nodes import AssumedDensity, Particles, choose_inner, usual_nodes
from paramfilter.nodes.choosing import MOST_PARAMETERS
from paramfilter.proposals import (
    Bootstrap,
    GaussianProduct,
    Guided,
    LookAhead,
    Proposal,
    is_heavy_tailed,
)

USUAL_PARTICLES = 500
"""Of filters whose particles hold beliefs about theta."""


@dataclass(frozen=True)
class Algorithm:
    """The name of a preset, how many particles it wants, and why it was chosen."""

    name: str
    num_particles: int
    reason: str


def choose_algorithm(model: StateSpaceModel, can_have_nodes: bool = True) -> Algorithm:
    """Return the preset that is right by the widest margin (docs/decisions/0034-values-of-theta-as-nodes.md)."""
    probe(model)  # a model that does not work says so here
    extended = lambda reason: Algorithm("extended_parameter_filter", USUAL_PARTICLES, reason)
    if not can_have_nodes:
        return extended("options of particles were given")
    if model.parameters.dimension > MOST_PARAMETERS:
        return extended(f"more than {MOST_PARAMETERS} parameters")
    choice = choose_inner(model)
    if isinstance(choice.inner, Particles):
        return extended("the state is a whole number without bound, or moves without a variance")
    if isinstance(choice.inner, AssumedDensity) and is_heavy_tailed(model):
        return extended("the state may jump")
    return Algorithm("node_filter", usual_nodes(model, choice.inner), f"{choice.inner.name}; {choice.reason}")


def choose_belief(model: StateSpaceModel) -> tuple[Belief, str]:
    """Return the belief that suits a model (see `inspect.advice_for`), and why."""
    advice = advice_for(model)
    if advice.num_values is None:
        return Conjugate(), "the model is conjugate, so this is exact"
    error = f"error {advice.error_per_datum:.0e} nats a datum over the prior's bulk"
    if advice.belief == "Grid":
        return Grid(advice.num_values), f"interpolation {error}"
    exact_rank = cross_of_prior(model).exact_rank
    if exact_rank is not None:
        return CrossInterpolation(), f"exactly separable with {exact_rank} numbers"
    reason = f"{advice.num_values} pivots, {error}"
    if jnp.result_type(float) == jnp.float32 and model.parameters.dimension > FEW_PARAMETERS:
        reason += "; float32 is too coarse for it, call jax.config.update('jax_enable_x64', True) first"
    return CrossInterpolation(), reason


def choose_proposal(model: StateSpaceModel) -> tuple[Proposal, str]:
    """Return the proposal that suits a model, and why: the best look at the next observation that it allows."""
    try:
        bound = Guided().bind(model)
    except ProposalError as error:
        return Bootstrap(), str(error)
    if isinstance(bound, GaussianProduct):
        return LookAhead(Guided()), "exact: Gaussian, and observed linearly"
    return LookAhead(Guided()), "approximate: fitted to transition times observation"
