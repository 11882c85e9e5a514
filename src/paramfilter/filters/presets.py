"""Named algorithms: each is the one loop with a few parts chosen."""

from __future__ import annotations

from paramfilter.beliefs import Belief, Conjugate, PointMass, TaylorOfLogDensity, TaylorOfMean
from paramfilter.errors import BeliefError
from paramfilter.filters.particle_filter import ParticleFilter
from paramfilter.model import StateSpaceModel
from paramfilter.proposals import Bootstrap, Proposal
from paramfilter.resampling import Resampling, Systematic


def sir_filter(
    model: StateSpaceModel,
    num_particles: int,
    *,
    proposal: Proposal = Bootstrap(),
    resampling: Resampling = Systematic(),
) -> ParticleFilter:
    """Make the plain particle filter on (x, theta), a yardstick: theta is never moved, so it collapses."""
    return ParticleFilter(model, num_particles, PointMass(), proposal, resampling)


def storvik_filter(
    model: StateSpaceModel,
    num_particles: int,
    *,
    proposal: Proposal = Bootstrap(),
    resampling: Resampling = Systematic(),
) -> ParticleFilter:
    """Make Storvik's filter: exact conjugate beliefs, for Gaussian models linear in their parameters."""
    return ParticleFilter(model, num_particles, Conjugate(), proposal, resampling)


def extended_parameter_filter(
    model: StateSpaceModel,
    num_particles: int,
    *,
    belief: Belief | None = None,
    proposal: Proposal = Bootstrap(),
    resampling: Resampling = Systematic(),
) -> ParticleFilter:
    """Make the extended parameter filter: beliefs in a fixed separable basis, chosen for the model.

    Args:
        model: The model.
        num_particles: N.
        belief: None chooses: `Conjugate` where the model is conjugate, else `TaylorOfMean` where theta enters
            Gaussian means only, else `TaylorOfLogDensity`. The choice stands in `filter.belief`.
        proposal: How particles move.
        resampling: When and how particles are resampled.
    """
    if belief is not None:
        return ParticleFilter(model, num_particles, belief, proposal, resampling)
    for exact_first in (Conjugate(), TaylorOfMean()):
        try:
            return ParticleFilter(model, num_particles, exact_first, proposal, resampling)
        except BeliefError:
            continue
    return ParticleFilter(model, num_particles, TaylorOfLogDensity(), proposal, resampling)
