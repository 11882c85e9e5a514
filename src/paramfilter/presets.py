"""Named algorithms. Each preset returns a filter with its parts chosen."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TypedDict, Unpack

from paramfilter.arguments import did_you_mean, require_kind
from paramfilter.auto import choose_algorithm, choose_belief, choose_proposal
from paramfilter.beliefs import Belief, Conjugate, Grid, PointMass, ShrinkingKernel
from paramfilter.beliefs.moved_points import USUAL_DISCOUNT, discount_that_keeps
from paramfilter.errors import ArgumentError
from paramfilter.filters.base import Filter
from paramfilter.filters.mixing import AncestorMixing, Mixing
from paramfilter.filters.outliers import OutlierGate
from paramfilter.filters.particle_filter import ParticleFilter, require_model_and_size
from paramfilter.model import StateSpaceModel
from paramfilter.nodes.choosing import NUM_KEPT, choice_of, choose_inner, usual_nodes
from paramfilter.nodes.filter import NodeFilter
from paramfilter.nodes.inner import InnerFilter
from paramfilter.nodes.reading import ACCURACY
from paramfilter.proposals import Bootstrap, Proposal, is_heavy_tailed
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
    """Options that every preset accepts; see `ParticleFilter` for their meaning and defaults."""

    num_islands: int
    outliers: OutlierGate | None
    mixing: Mixing | None
    memory: float | None
    health: bool


class Options(OtherOptions, total=False):
    """The same options, and `resampling`."""

    resampling: Resampling


def preset[Made: Callable](make: Made) -> Made:
    """Refuse an option that a preset does not have, and name those that it has."""
    known = set(inspect.signature(make).parameters)
    known |= Options.__optional_keys__ if "options" in known else set()
    known = sorted(known - {"model", "options"})

    @functools.wraps(make)
    def checked(*arguments, **options):
        for name in options.keys() - {"model", *known}:
            has = f"Its options are {', '.join(known)}."
            raise ArgumentError(f"{make.__name__} has no option {name!r}{did_you_mean(name, known) or '.'} {has}")
        return make(*arguments, **options)

    return checked  # type: ignore[return-value]


@preset
def auto_filter(model: StateSpaceModel, num_particles: int | None = None, **options: Unpack[OtherOptions]) -> Filter:
    """Choose and build a filter for `model`. Start here.

    - `node_filter`, if given theta the state has a filter without random numbers: models that are linear and Gaussian,
      states with few values, and states of real numbers with means and variances.
    - `extended_parameter_filter` otherwise: states that jump, unbounded counts, more than twelve parameters.

    Args:
        model: The model to learn.
        num_particles: Number of nodes or particles; None selects 512 to 2048 nodes or 500 particles.
        options: `outliers`, and the options `num_islands`, `mixing`, `memory` and `health` of `ParticleFilter`. A node
            filter has none of these four, so each of them selects `extended_parameter_filter`.

    Returns:
        A filter. `filter.choice` names the algorithm and gives the reason.

    Example:
        >>> import paramfilter as pf
        >>> pf.auto_filter(pf.models.linear_gaussian()).choice
        'node_filter(model, 512): Kalman; linear and Gaussian given theta: exact'
    """
    with waiting("inspecting the model"):
        choice = choose_algorithm(model, can_have_nodes=not options.keys() - {"outliers"})
    size = choice.num_particles if num_particles is None else num_particles
    filter = PRESETS[choice.name](model, size, **options)
    details = "" if choice.name == node_filter.__name__ else f"; {filter.choice}"
    filter.note_choice(f"{choice.name}(model, {size}): {choice.reason}{details}")
    return filter


@preset
def node_filter(
    model: StateSpaceModel,
    num_nodes: int | None = None,
    *,
    inner: type[InnerFilter] | InnerFilter | None = None,
    num_kept: int = NUM_KEPT,
    outliers: OutlierGate | None = None,
    accuracy: float = ACCURACY,
) -> NodeFilter:
    """Build a node filter: values of theta (nodes), each with a filter for the state given theta.

    The filter holds log p(y_1..y_t | theta) at the nodes, and replaces nodes when too few lie where the posterior is.
    For most models the filter for the state given theta needs no random numbers, so the posterior has little Monte
    Carlo noise.

    Args:
        model: The model to learn, with up to about ten parameters.
        num_nodes: Number of nodes; None selects 512 to 2048, depending on the model. Cost is linear in it.
        inner: Filter for the state given theta: `nodes.Kalman`, `nodes.FiniteState`, `nodes.Guided`,
            `nodes.LinearPredictor`, `nodes.AssumedDensity` or `nodes.Particles`; or one that is bound to the model,
            such as `nodes.Particles.bind(model, 256)`. None chooses the first that fits, in this order.
        num_kept: Number of past observations to keep. New nodes are run through them. Later nodes are placed without
            the past, which is less robust.
        outliers: `OutlierGate()` skips observations far outside the forecasts; None (the default) uses all.
        accuracy: Wanted error of posterior means, in posterior sds (default 0.02). While past observations are kept,
            `posterior` adds points until it is reached. A larger value makes reading the posterior faster.

    Returns:
        A filter whose `posterior(state).error()` estimates the error of each posterior mean.
    """
    require_kind(model, StateSpaceModel, "model", "The model comes first, then the number of nodes.")
    with waiting("inspecting the model"):
        choice = choose_inner(model) if inner is None else choice_of(_bound_to(model, inner), "as requested")
    size = usual_nodes(model, choice.inner) if num_nodes is None else num_nodes
    filter = NodeFilter(model, size, choice.inner, num_kept, outliers, accuracy)
    filter.note_choice(f"{choice.inner.name}; {choice.reason}")
    return filter


def _bound_to(model: StateSpaceModel, inner: type[InnerFilter] | InnerFilter) -> InnerFilter:
    return inner if isinstance(inner, InnerFilter) else inner.bind(model)


@preset
def sir_filter(
    model: StateSpaceModel, num_particles: int, *, proposal: Proposal = Bootstrap(), **options: Unpack[Options]
) -> ParticleFilter:
    """Build a plain particle filter on (x, theta), a baseline. It never moves theta, so it collapses.

    Args:
        model: The model to learn.
        num_particles: Number of particles N. Cost is linear in N.
        proposal: How particles move; `Bootstrap()` draws from the transition.
        options: `resampling`, `num_islands`, `outliers`, `mixing`, `memory` and `health`, as in `ParticleFilter`.

    Returns:
        A filter whose particles each hold one value of theta.
    """
    return ParticleFilter(model, num_particles, PointMass(), proposal, **options)


@preset
def liu_west_filter(
    model: StateSpaceModel,
    num_particles: int,
    *,
    discount: float | None = None,
    rho: float | None = None,
    proposal: Proposal = Bootstrap(),
    **options: Unpack[Options],
) -> ParticleFilter:
    """Build a Liu-West filter, a baseline. It moves theta by a kernel that preserves mean and covariance.

    The filter becomes overconfident over time: see `beliefs.ShrinkingKernel`.

    Args:
        model: The model to learn.
        num_particles: Number of particles N. Cost is linear in N.
        discount: Liu and West's delta, between 1/3 and 1; None uses 0.98. A step keeps the share
            a = (3 delta - 1) / (2 delta) of the distance of each value from the mean; see `beliefs.ShrinkingKernel`.
        rho: That share a, between 0 and 1, instead of `discount`. The EPF paper calls it rho and uses 0.9.
        proposal: How particles move; `Bootstrap()` draws from the transition.
        options: As in `sir_filter`. `num_islands` defaults to four if N is at least 400 and a multiple of four, so that
            `diagnose` can detect a collapse. `num_islands=1` is the single population of the literature.

    Returns:
        A filter whose particles each hold one value of theta, moved at every step.
    """
    num_islands = options.setdefault("num_islands", islands_for(require_model_and_size(model, num_particles)))
    if rho is not None:
        if discount is not None:
            raise ArgumentError(f"got discount={discount} and rho={rho}, which set the same share. Pass one of them.")
        discount = discount_that_keeps(rho)
    kernel = ShrinkingKernel(USUAL_DISCOUNT if discount is None else discount, num_islands)
    return ParticleFilter(model, num_particles, kernel, proposal, **options)


@preset
def storvik_filter(
    model: StateSpaceModel, num_particles: int, *, proposal: Proposal = Bootstrap(), **options: Unpack[Options]
) -> ParticleFilter:
    """Build Storvik's filter: exact conjugate posteriors given the states.

    Args:
        model: A Gaussian model that is linear in its parameters; others raise `BeliefError`.
        num_particles: Number of particles N. Start with 1000; cost is linear in N.
        proposal: How particles move; `Bootstrap()` draws from the transition.
        options: As in `sir_filter`.

    Returns:
        A filter whose particles each hold the sufficient statistics of theta.
    """
    return ParticleFilter(model, num_particles, Conjugate(), proposal, **options)


@preset
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
    """Build an extended parameter filter: each particle holds an approximate density of theta, of fixed size.

    Args:
        model: The model to learn.
        num_particles: Number of particles N. Start with 1000; cost is linear in N.
        belief: How a particle represents theta, such as `beliefs.Grid()`. None chooses: `Conjugate` if the model is
            conjugate, `Grid` for one parameter, `CrossInterpolation` for several.
        proposal: How particles move. None chooses `LookAhead(Guided())` if the state consists of real numbers, and
            `Bootstrap()` otherwise.
        resampling: When and how particles are resampled.
        num_islands: Number of groups of particles that never mix. None uses four if N is at least 400 and a multiple of
            four and the state does not jump, and one otherwise.
        outliers: `OutlierGate()` skips observations far outside the forecasts; None (the default) uses all.
        mixing: How beliefs are updated: `NoMixing()` along the particle's path, as in the paper; `PairwiseMixing()` or
            `AncestorMixing(8)` mixed over ancestors, which stays accurate on long streams. None chooses
            `AncestorMixing(8)` for a `Grid` if the state jumps, and otherwise the best that the belief supports.
        memory: Number of observations after which a datum counts 1/e of a new one, for parameters that drift; None
            forgets nothing.
        health: Whether each step reports R-hat, surviving ancestors and forecast ranks. False makes steps faster.

    Returns:
        A filter. `filter.choice` names the parts that were chosen, with the reasons.
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


PRESETS: dict[str, Callable[..., Filter]] = {
    preset.__name__: preset
    for preset in (
        auto_filter,
        node_filter,
        extended_parameter_filter,
        storvik_filter,
        liu_west_filter,
        sir_filter,
    )
}
"""All presets by name, for command lines and configuration files."""
