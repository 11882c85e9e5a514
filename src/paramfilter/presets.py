"""Named algorithms. Each preset returns a filter with its parts chosen."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypedDict, Unpack

from paramfilter.arguments import did_you_mean, require_kind
from paramfilter.errors import ArgumentError, ModelError, ProposalError
from paramfilter.filters import Filter, OutlierGate
from paramfilter.filters.base import note_choice
from paramfilter.inspect.probe import probe
from paramfilter.model import StateSpaceModel
from paramfilter.nodes import AssumedDensity, Particles
from paramfilter.nodes.choosing import MOST_PARAMETERS, NUM_KEPT, choice_of, choose_inner, usual_nodes
from paramfilter.nodes.filter import NodeFilter, kept_for
from paramfilter.nodes.inner import InnerFilter
from paramfilter.nodes.reading import ACCURACY
from paramfilter.particles import (
    AncestorMixing,
    Belief,
    Conjugate,
    Grid,
    ParticleFilter,
    PointMass,
    ShrinkingKernel,
    TaylorOfLogDensity,
    TaylorOfMean,
)
from paramfilter.particles.liu_west import USUAL_DISCOUNT, discount_that_keeps
from paramfilter.particles.taylor import why_not_means
from paramfilter.proposals import Bootstrap, Guided, LookAhead, Proposal, is_heavy_tailed
from paramfilter.resampling import Multinomial, Resampling
from paramfilter.waiting import waiting

USUAL_PARTICLES = 500
"""Of filters whose particles hold beliefs about theta."""

MOST_ON_A_GRID = 2
"""Parameters that a grid of values can hold."""

GRID = "ParticleFilter"
"""In place of the name of a preset: particles that hold a grid, mixed over ancestors."""

MANY_ANCESTORS = 8
"""At each step, where the state jumps: paths are believed before the first jump can tell which of them is right."""


@dataclass(frozen=True)
class Algorithm:
    """The name of a preset, how many particles it wants, and why it was chosen."""

    name: str
    num_particles: int
    reason: str


def choose_algorithm(model: StateSpaceModel) -> Algorithm:
    """Return the preset that is right by the widest margin (docs/decisions/0034-values-of-theta-as-nodes.md)."""
    probe(model)  # a model that does not work says so here
    if model.parameters.dimension > MOST_PARAMETERS:
        raise ModelError(
            f"auto_filter learns at most {MOST_PARAMETERS} parameters, this model has {model.parameters.dimension}. "
            "Give some of them fixed values, or learn all with NUTS in NumPyro or `references.pmmh`; `warm_start` "
            "continues from its draws."
        )
    choice = choose_inner(model)
    nodes = Algorithm("node_filter", usual_nodes(model, choice.inner), f"{choice.inner.name}; {choice.reason}")
    if model.parameters.dimension > MOST_ON_A_GRID:
        return nodes
    if isinstance(choice.inner, Particles):
        return Algorithm(GRID, USUAL_PARTICLES, choice.reason.split(":")[0])
    if isinstance(choice.inner, AssumedDensity) and is_heavy_tailed(model):
        return Algorithm(GRID, USUAL_PARTICLES, "the state may jump")
    return nodes


def proposal_for(model: StateSpaceModel) -> Proposal:
    """Return the best look at the next observation that a model allows."""
    try:
        Guided().bind(model)
    except ProposalError:
        return Bootstrap()
    return LookAhead(Guided())


class Options(TypedDict, total=False):
    """Options of filters of particles; see `ParticleFilter` for their meaning and defaults."""

    proposal: Proposal
    resampling: Resampling
    outliers: OutlierGate | None
    memory: float | None


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
def auto_filter(
    model: StateSpaceModel,
    num_particles: int | None = None,
    *,
    outliers: OutlierGate | None = None,
    memory: float | None = None,
) -> Filter:
    """Choose and build a filter for `model`. Start here.

    - `node_filter`, if given theta the state has a filter without random numbers: models that are linear and Gaussian,
      states with few values, counts, and states of real numbers with means and variances; and for three to twenty
      parameters.
    - `ParticleFilter` with a `Grid` otherwise: states that jump, with one or two parameters.

    Args:
        model: The model to learn.
        num_particles: Number of nodes or particles; None selects 512 to 2048 nodes or 500 particles.
        outliers: `OutlierGate()` skips observations far outside the forecasts; None (the default) uses all.
        memory: Number of observations after which a datum counts 1/e of a new one, for parameters that drift; None
            forgets nothing. Compare `state.log_evidence` of filters with several memories.

    Returns:
        A filter. `filter.choice` names the algorithm and gives the reason.

    Example:
        >>> import paramfilter as pf
        >>> pf.auto_filter(pf.models.linear_gaussian()).choice
        'node_filter(model, 512): Kalman; linear and Gaussian given theta: exact'
    """
    with waiting("inspecting the model"):
        choice = choose_algorithm(model)
    size = choice.num_particles if num_particles is None else num_particles
    if choice.name == GRID:
        parts = Grid(), proposal_for(model)
        mixing = AncestorMixing(MANY_ANCESTORS)
        filter = ParticleFilter(model, size, *parts, mixing=mixing, outliers=outliers, memory=memory)
        details = f"; {filter.engine.parts.belief.name}, {filter.engine.proposal}, {mixing}: approximate, not checked"
    else:
        filter, details = node_filter(model, size, outliers=outliers, memory=memory), ""
    note_choice(filter, f"{choice.name}(model, {size}): {choice.reason}{details}")
    return filter


@preset
def node_filter(
    model: StateSpaceModel,
    num_nodes: int | None = None,
    *,
    inner: type[InnerFilter] | InnerFilter | None = None,
    num_kept: int | None = None,
    outliers: OutlierGate | None = None,
    accuracy: float = ACCURACY,
    memory: float | None = None,
) -> NodeFilter:
    """Build a node filter: values of theta (nodes), each with a filter for the state given theta.

    The filter holds log p(y_1..y_t | theta) at the nodes, and replaces nodes when too few lie where the posterior is.
    For most models the filter for the state given theta needs no random numbers, so the posterior has little Monte
    Carlo noise.

    Args:
        model: The model to learn, with up to 20 parameters.
        num_nodes: Number of nodes; None selects 512 to 2048, depending on the model. Cost is linear in it.
        inner: Filter for the state given theta: `nodes.Kalman`, `nodes.FiniteState`, `nodes.Counts`, `nodes.Guided`,
            `nodes.LinearPredictor`, `nodes.AssumedDensity` or `nodes.Particles`; or one that is bound to the model,
            such as `nodes.Particles.bind(model, 256)`. None chooses the first that fits, in this order.
        num_kept: Number of past observations to keep (16,384, or with `memory` 20 times that). New nodes are run
            through them. Later nodes are placed without the past, which is less robust.
        outliers: `OutlierGate()` skips observations far outside the forecasts; None (the default) uses all.
        accuracy: Wanted error of posterior means, in posterior sds (default 0.02). While past observations are kept,
            `posterior` adds points until it is reached. A larger value makes reading the posterior faster.
        memory: For parameters that drift: number of observations after which a datum counts 1/e of a new one. Before
            each step the log likelihood of every node is multiplied by 1 - 1 / memory, so the posterior returns to the
            prior where data are missing. None (the default) forgets nothing.

    Returns:
        A filter whose `posterior(state).error()` estimates the error of each posterior mean.
    """
    require_kind(model, StateSpaceModel, "model", "The model comes first, then the number of nodes.")
    with waiting("inspecting the model"):
        choice = choose_inner(model) if inner is None else choice_of(_bound_to(model, inner), "as requested")
    size = usual_nodes(model, choice.inner) if num_nodes is None else num_nodes
    if num_kept is None:
        num_kept = NUM_KEPT if memory is None else kept_for(memory)
    filter = NodeFilter(model, size, choice.inner, num_kept, outliers, accuracy, memory)
    note_choice(filter, f"{choice.inner.name}; {choice.reason}")
    return filter


def _bound_to(model: StateSpaceModel, inner: type[InnerFilter] | InnerFilter) -> InnerFilter:
    return inner if isinstance(inner, InnerFilter) else inner.bind(model)


@preset
def sir_filter(model: StateSpaceModel, num_particles: int, **options: Unpack[Options]) -> ParticleFilter:
    """Build a plain particle filter on (x, theta), a baseline. It never moves theta, so it collapses.

    Args:
        model: The model to learn.
        num_particles: Number of particles N. Cost is linear in N.
        options: `proposal`, `resampling` and `outliers`, as in `ParticleFilter`.

    Returns:
        A filter whose particles each hold one value of theta.
    """
    return ParticleFilter(model, num_particles, PointMass(), **options)


@preset
def liu_west_filter(
    model: StateSpaceModel,
    num_particles: int,
    *,
    discount: float | None = None,
    rho: float | None = None,
    **options: Unpack[Options],
) -> ParticleFilter:
    """Build a Liu-West filter, a baseline. It moves theta by a kernel that preserves mean and covariance.

    The filter becomes overconfident over time: see `particles.ShrinkingKernel`.

    Args:
        model: The model to learn.
        num_particles: Number of particles N. Cost is linear in N.
        discount: Liu and West's delta, between 1/3 and 1; None uses 0.98. A step keeps the share
            a = (3 delta - 1) / (2 delta) of the distance of each value from the mean; see `particles.ShrinkingKernel`.
        rho: That share a, between 0 and 1, instead of `discount`. The EPF paper calls it rho and uses 0.9.
        options: As in `sir_filter`.

    Returns:
        A filter whose particles each hold one value of theta, moved at every step.
    """
    if rho is not None:
        if discount is not None:
            raise ArgumentError(f"got discount={discount} and rho={rho}, which set the same share. Pass one of them.")
        discount = discount_that_keeps(rho)
    return ParticleFilter(
        model, num_particles, ShrinkingKernel(USUAL_DISCOUNT if discount is None else discount), **options
    )


@preset
def storvik_filter(model: StateSpaceModel, num_particles: int, **options: Unpack[Options]) -> ParticleFilter:
    """Build Storvik's filter: exact conjugate posteriors given the states.

    Args:
        model: A Gaussian model that is linear in its parameters; others raise `BeliefError`.
        num_particles: Number of particles N. Start with 1000; cost is linear in N.
        options: As in `sir_filter`, and `memory`.

    Returns:
        A filter whose particles each hold the sufficient statistics of theta.
    """
    return ParticleFilter(model, num_particles, Conjugate(), **options)


@preset
def extended_parameter_filter(
    model: StateSpaceModel,
    num_particles: int,
    order: int = 7,
    center: float | Mapping[str, float] = 0.0,
    *,
    belief: Belief | None = None,
    **options: Unpack[Options],
) -> ParticleFilter:
    """Build the extended parameter filter as published (Erol et al., ICML 2013, Algorithm 3).

    Each particle holds a polynomial for the log density of theta, from Taylor series of fixed order. Particles move by
    the transition and are resampled at every step by independent draws. It is the paper's algorithm, with its limits:
    outside the radius of convergence a belief is narrow and wrong. To learn a model, use `auto_filter`.

    Args:
        model: The model to learn.
        num_particles: Number of particles N; the paper takes 100 to 1000. Cost is linear in N.
        order: Order of the series.
        center: Where to expand, on the natural scale: a number, or a dict with one for each parameter.
        belief: Another representation of theta, such as `particles.printed_cauchy()` or `particles.Grid()`. None uses
            `particles.TaylorOfMean` if theta enters only the means of Gaussians, and `particles.TaylorOfLogDensity`
            otherwise.
        options: As in `storvik_filter`; `resampling` is `Multinomial()` if it is left out.

    Returns:
        A filter. `filter.choice` names its belief.

    Example:
        >>> import paramfilter as pf
        >>> extended_parameter_filter(pf.models.sin(), 100).choice
        'TaylorOfMean(order=7, center=0.0): theta enters only the means of Gaussians'
    """
    reason = "as requested"
    if belief is None:
        require_kind(model, StateSpaceModel, "model", "The model comes first, then the number of particles.")
        with waiting("inspecting the model"):
            belief, reason = TaylorOfMean(order, center), "theta enters only the means of Gaussians"
            if (why_not := why_not_means(model)) is not None:
                belief, reason = TaylorOfLogDensity(order, center), why_not
    filter = ParticleFilter(model, num_particles, belief, **{"resampling": Multinomial(), **options})
    note_choice(filter, f"{belief}: {reason}")
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
