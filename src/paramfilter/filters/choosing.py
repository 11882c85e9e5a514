"""What suits a model: an algorithm, a belief, a proposal. Each choice comes with its reason, for the user to read."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from paramfilter.beliefs import Belief, Chebyshev, Conjugate, CrossInterpolation
from paramfilter.beliefs.quadratic_fit import num_quadratic_terms
from paramfilter.errors import ModelError, ProposalError
from paramfilter.model import StateSpaceModel
from paramfilter.probe import probe
from paramfilter.proposals import (
    Bootstrap,
    GaussianProduct,
    Guided,
    LookAhead,
    Proposal,
    has_jumps,
    with_kalman_filter,
)
from paramfilter.separability.analyse import advice_for
from paramfilter.separability.cross import FEW_PARAMETERS, cross_of_prior

USUAL_PARTICLES = 500
"""Of filters whose particles hold beliefs about theta."""

FEWEST_VALUES, VALUES_PER_COEFFICIENT = 1000, 100
"""Of banks, whose particles are values of theta: so many for each coefficient of a quadratic in it
(docs/decisions/0029-banks-of-filters.md)."""


@dataclass(frozen=True)
class Algorithm:
    """The name of a preset, how many particles it wants, and why it was chosen."""

    name: str
    num_particles: int
    reason: str


def choose_algorithm(model: StateSpaceModel) -> Algorithm:
    """Return the preset that needs least for a right answer (docs/decisions/0030-which-filter.md has the figures)."""
    shapes = probe(model)  # a model that does not work says so here
    dimension = model.parameters.dimension
    num_values = max(FEWEST_VALUES, VALUES_PER_COEFFICIENT * num_quadratic_terms(dimension))
    extended = lambda reason: Algorithm("extended_parameter_filter", USUAL_PARTICLES, reason)
    if _is_linear(model):
        return Algorithm("kalman_bank_filter", num_values, "linear and Gaussian given theta")
    if dimension == 1:
        return extended("one parameter: a particle can hold all that is known about it")
    if any(not jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(shapes.x)):
        return extended("the state is a whole number")
    if len(jax.tree.leaves(shapes.y)) > 1:
        return extended("several arrays are observed")
    if has_jumps(model):
        return extended("the state may jump")
    return Algorithm("particle_bank_filter", num_values, f"{dimension} parameters, not linear and Gaussian")


def _is_linear(model: StateSpaceModel) -> bool:
    try:
        with_kalman_filter(model)
    except ModelError:
        return False
    return True


def choose_member(model: StateSpaceModel) -> tuple[Proposal, int]:
    """Return how a member of a crowd moves, and how many make a crowd."""
    try:
        is_exact = isinstance(Guided().bind(model), GaussianProduct)
    except ProposalError:
        is_exact = False
    return (Guided(), 30) if is_exact else (Bootstrap(), 100)


def choose_belief(model: StateSpaceModel) -> tuple[Belief, str]:
    """Return the belief that suits a model (see `separability.advice_for`), and why."""
    advice = advice_for(model)
    if advice.num_values is None:
        return Conjugate(), "the model is conjugate, so this is exact"
    error = f"error {advice.error_per_datum:.0e} nats a datum over the prior's bulk"
    if advice.belief == "Chebyshev":
        return Chebyshev(advice.num_values), f"interpolation {error}"
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
