"""Named algorithms: each is the one loop with a few parts chosen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict, Unpack

from paramfilter.arguments import require_kind
from paramfilter.auto import choose_algorithm, choose_belief, choose_proposal
from paramfilter.beliefs import (
    Belief,
    Conjugate,
    Grid,
    Jitter,
    MomentMatched,
    PointMass,
    ShrinkingKernel,
)
from paramfilter.filters.base import Filter
from paramfilter.filters.mixing import AncestorMixing, Mixing
from paramfilter.filters.outliers import OutlierGate
from paramfilter.filters.particle_filter import ParticleFilter, require_model_and_size
from paramfilter.model import StateSpaceModel
from paramfilter.nodes.choosing import NUM_KEPT, Choice, choose_inner, usual_nodes
from paramfilter.nodes.filter import NodeFilter
from paramfilter.nodes.inner import InnerFilter
from paramfilter.proposals import (
    Bootstrap,
    CrowdMove,
    Proposal,
    crowd_of,
    is_heavy_tailed,
)
from paramfilter.resampling import Resampling, Systematic
from paramfilter.waiting import waiting

DEFAULT_ISLANDS = 4
FEWEST_ON_AN_ISLAND = 100
"""Four islands keep the posterior sd right to t = 10 N, at no cost in error; smaller ones are biased
(docs/decisions/0013-proposals-and-islands.md)."""

MANY_ANCESTORS = 8
"""At each step, where the state jumps: paths are believed before the first jump can tell which of them is right
(docs/decisions/0028-many-ancestors.md)."""


def islands_for(num_particles: int) -> int:
    """Return the default number of islands: four if each gets a hundred particles or more, and else one."""
    is_enough = num_particles >= DEFAULT_ISLANDS * FEWEST_ON_AN_ISLAND and num_particles % DEFAULT_ISLANDS == 0
    return DEFAULT_ISLANDS if is_enough else 1


class OtherOptions(TypedDict, total=False):
    """What every preset takes by name; what is left out is as in `ParticleFilter`, which says what each means."""

    num_islands: int
    outliers: OutlierGate | None
    mixing: Mixing | None
    memory: float | None
    health: bool


class Options(OtherOptions, total=False):
    """The same with the resampling, for presets that have no opinion on it."""

    resampling: Resampling


def auto_filter(model: StateSpaceModel, num_particles: int | None = None, **options: Unpack[OtherOptions]) -> Filter:
    """Make the filter that suits a model: where to begin. `filter.choice` says which one it is and why.

    - The node filter, if given theta the state has a filter without random numbers: models that are linear and Gaussian
      or have few states, and states of real numbers with means and variances.
    - The extended parameter filter for all others: states that jump, counts without bound, very many parameters.

    Args:
        model: The model.
        num_particles: N; None for a number that suits the model.
        options: `outliers`, and of `ParticleFilter`: `num_islands`, `mixing`, `memory` and `health`. With one of these
            four the extended parameter filter is taken, since a node filter has none.
    """
    with waiting("inspecting the model"):
        choice = choose_algorithm(model, can_have_nodes=not options.keys() - {"outliers"})
    size = choice.num_particles if num_particles is None else num_particles
    filter = PRESETS[choice.name](model, size, **options)
    details = "" if choice.name == node_filter.__name__ else f"; {filter.choice}"
    filter.note_choice(f"{choice.name}(model, {size}): {choice.reason}{details}")
    return filter


def node_filter(
    model: StateSpaceModel,
    num_nodes: int | None = None,
    *,
    inner: type[InnerFilter] | InnerFilter | None = None,
    num_kept: int = NUM_KEPT,
    outliers: OutlierGate | None = None,
) -> NodeFilter:
    """Make the node filter: values of theta, each with a filter for the state given theta, renewed when they are few.

    It holds log p(y_1..y_t | theta) by its values at the nodes. Given theta most models have a filter for the state
    without random numbers, exact or nearly so; then the posterior has no Monte Carlo noise but that of a lattice.

    Args:
        model: The model, with up to about ten parameters.
        num_nodes: N; None for a number that suits the model.
        inner: `nodes.Kalman`, `nodes.FiniteState`, `nodes.Guided`, `nodes.AssumedDensity` or `nodes.Particles`, or one
            that is bound to the model: `nodes.Particles.bind(model, 256)`. None chooses.
        num_kept: Observations that are kept, so that new nodes can be taken through them. After them nodes are renewed
            without looking back, which is less robust.
        outliers: What to do with observations far outside the forecasts; None uses them like any other.
    """
    require_kind(model, StateSpaceModel, "model", "The model comes first, then the number of nodes.")
    with waiting("inspecting the model"):
        choice = choose_inner(model) if inner is None else Choice(_bound_to(model, inner), "as asked")
    size = usual_nodes(model, choice.inner) if num_nodes is None else num_nodes
    filter = NodeFilter(model, size, choice.inner, num_kept, outliers)
    filter.note_choice(f"{choice.inner.name}; {choice.reason}")
    return filter


def _bound_to(model: StateSpaceModel, inner: type[InnerFilter] | InnerFilter) -> InnerFilter:
    return inner if isinstance(inner, InnerFilter) else inner.bind(model)


def sir_filter(
    model: StateSpaceModel, num_particles: int, *, proposal: Proposal = Bootstrap(), **options: Unpack[Options]
) -> ParticleFilter:
    """Make the plain particle filter on (x, theta), a baseline: theta is never moved, so it collapses.

    Args:
        model: The model.
        num_particles: The number of particles N.
        proposal: How particles move.
        options: `resampling`, `num_islands`, `outliers`, `mixing`, `memory` and `health`, as in `ParticleFilter`.
    """
    return ParticleFilter(model, num_particles, PointMass(), proposal, **options)


def liu_west_filter(
    model: StateSpaceModel,
    num_particles: int,
    *,
    discount: float = 0.98,
    proposal: Proposal = Bootstrap(),
    **options: Unpack[Options],
) -> ParticleFilter:
    """Make the filter of Liu and West, a baseline: values of theta move by a kernel that keeps mean and covariance.

    It is the most widely shipped method, and known to fail slowly: see `beliefs.ShrinkingKernel`.

    Args:
        model: The model.
        num_particles: The number of particles N.
        discount: How much of each value is kept at a step; see `beliefs.ShrinkingKernel`.
        proposal: How particles move.
        options: Of the loop, as in `sir_filter`. Without `num_islands` there are four islands if N is 400 or more and a
            multiple of four, each with a kernel of its own, so that `diagnose` sees the collapse; `num_islands=1` is
            the single population of the literature.
    """
    num_islands = options.setdefault("num_islands", islands_for(require_model_and_size(model, num_particles)))
    return ParticleFilter(model, num_particles, ShrinkingKernel(discount, num_islands), proposal, **options)


def nested_particle_filter(
    model: StateSpaceModel, num_particles: int, *, num_states: int | None = None, **options: Unpack[Options]
) -> ParticleFilter:
    """Make the nested particle filter, a yardstick: each value of theta has a particle filter of its own.

    Args:
        model: The model.
        num_particles: N values of theta, each of which moves by noise of N^-3/4 prior sds at every step.
        num_states: M states for each of them; None for as many as there are values.
        options: Of the loop, as in `sir_filter`.
    """
    num_particles = require_model_and_size(model, num_particles)
    crowd = crowd_of(model, num_particles if num_states is None else num_states)
    return ParticleFilter(crowd, num_particles, Jitter(num_particles**-0.75), CrowdMove(), **options)


def storvik_filter(
    model: StateSpaceModel, num_particles: int, *, proposal: Proposal = Bootstrap(), **options: Unpack[Options]
) -> ParticleFilter:
    """Make Storvik's filter: exact conjugate beliefs, for Gaussian models linear in their parameters.

    Args:
        model: The model.
        num_particles: N.
        proposal: How particles move.
        options: Of the loop, as in `sir_filter`.
    """
    return ParticleFilter(model, num_particles, Conjugate(), proposal, **options)


def extended_parameter_filter(
    model: StateSpaceModel,
    num_particles: int,
    *,
    belief: Belief | None = None,
    proposal: Proposal | None = None,
    resampling: Resampling = Systematic(),
    num_islands: int | None = None,
    outliers: OutlierGate | None = None,
    mixing: Mixing | None = None,
    memory: float | None = None,
    health: bool = True,
) -> ParticleFilter:
    """Make the extended parameter filter: beliefs in a fixed separable basis, chosen for the model.

    Args:
        model: The model.
        num_particles: N.
        belief: None chooses (see `choose_belief`); the choice stands in `filter.belief`, its reason in `filter.choice`.
        proposal: None chooses (see `choose_proposal`), likewise.
        resampling: When and how particles are resampled.
        num_islands: Groups of particles that are never mixed; None for `DEFAULT_ISLANDS` if there are particles enough
            and the state does not jump.
        outliers: What to do with observations far outside the forecasts; None uses them like any other.
        mixing: How beliefs are updated: `NoMixing()` along paths, as in the paper; others given the present state,
            which stay right in the long run (see `ParticleFilter`). None for `AncestorMixing(8)` if the state jumps and
            the belief is a `Grid`, and else for the best that the belief allows.
        memory: After how many observations a datum counts 1/e of a new one; None forgets nothing.
        health: Whether each step reports R-hat, surviving ancestors and PIT.
    """
    num_particles = require_model_and_size(model, num_particles)
    reasons = []
    if num_islands is None:
        num_islands = islands_for(num_particles)
        if num_islands > 1 and is_heavy_tailed(model):
            num_islands = 1
            reasons.append("one island (a part of the particles may miss a jump)")
    if belief is None:
        with waiting("inspecting the model"):
            belief, reason = choose_belief(model)
        reasons.append(f"{belief} ({reason})")
    if proposal is None:
        proposal, reason = choose_proposal(model)
        reasons.append(f"{proposal} ({reason})")
    if mixing is None and isinstance(belief, Grid) and is_heavy_tailed(model):
        mixing = AncestorMixing(MANY_ANCESTORS)
        reasons.append(f"{mixing} (paths that jump would lock theta in; slower)")
    parts = belief, proposal, resampling, num_islands, outliers, mixing, memory, health
    filter = ParticleFilter(model, num_particles, *parts)
    if reasons:
        filter.note_choice("; ".join(reasons))
    return filter


def assumed_parameter_filter(
    model: StateSpaceModel, num_particles: int, *, proposal: Proposal = Bootstrap(), **options: Unpack[Options]
) -> ParticleFilter:
    """Make the assumed parameter filter: moment-matched Gaussian beliefs, quick and rough.

    Args:
        model: The model.
        num_particles: N.
        proposal: How particles move.
        options: Of the loop, as in `sir_filter`.
    """
    return ParticleFilter(model, num_particles, MomentMatched(), proposal, **options)


PRESETS: dict[str, Callable[..., Filter]] = {
    preset.__name__: preset
    for preset in (
        auto_filter,
        node_filter,
        extended_parameter_filter,
        storvik_filter,
        assumed_parameter_filter,
        liu_west_filter,
        nested_particle_filter,
        sir_filter,
    )
}
"""By name, for those who take a name from a command line or a file."""
