"""What a step does, on one page.

    theta_n, n = 1..N      the nodes: values of theta, each with a filter for the state given theta
    l_n                    log p(y_1..y_t | theta_n), the log likelihood so far

1. each inner filter takes y_t in, and says log p(y_t | y_1..y_{t-1}, theta_n);
2. that is added to l_n, which is multiplied by 1 - 1 / memory before if the filter forgets;
3. the effective sample size of the weights p(theta_n) exp(l_n) / q(theta_n) tells whether the nodes still cover the
   posterior; q is the distribution that they were drawn from. If they do not, new nodes are made (`renewal`).

Nodes are not resampled. What is random is the shift of their lattice, and what `Particles` draws inside of a node.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from paramfilter.nodes.proposals import Prior
from paramfilter.nodes.state import Nodes, NodeState
from paramfilter.numerics.compensated import CompensatedSum
from paramfilter.outcome import Outcome
from paramfilter.tracing import is_traced, numbers, on_host
from paramfilter.types import Inputs, Numbers, Observation

if TYPE_CHECKING:
    from paramfilter.nodes.filter import NodeEngine

IMPOSSIBLE = -1e4
"""Nats in place of a log likelihood that is not finite: out of the question, and yet a number that sums can hold."""

LOWEST_BEFORE_SURFACES = 0.4
"""Share of effective nodes below which they are renewed when the last observation is kept: the surfaces that follow
are as good as the nodes that the first of them is fitted to."""


def fresh_nodes(
    engine: NodeEngine,
    z: Float[Numbers, "node param"],
    log_proposal: Float[Numbers, " node"],
    prior: Prior,
    inputs: Inputs,
) -> Nodes:
    """Make nodes that have seen no data."""
    parameters = engine.model.parameters
    theta = jax.vmap(parameters.constrain)(z)
    by_node = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, -1), theta)  # as inner filters want it
    log_prior = prior.log_density(parameters, z)
    log_prior = jnp.where(jnp.isfinite(log_prior), log_prior, IMPOSSIBLE)  # far out, where a parameter overflows
    log_total, ess = total_and_size(log_prior - log_proposal)
    return Nodes(
        z=jnp.asarray(z),
        theta=theta,
        constants=engine.inner.prepare(by_node),
        x=engine.inner.init(by_node, inputs),
        log_prior=log_prior,
        log_proposal=jnp.asarray(log_proposal),
        log_likelihood=jnp.zeros(len(z)),
        offset=CompensatedSum.start(jnp.zeros(())),
        faded=CompensatedSum.start(jnp.zeros(())),
        log_total=log_total,
        ess=ess,
    )


def observe(engine: NodeEngine, nodes: Nodes, y: Observation, inputs: Inputs) -> Nodes:
    """Let each node take an observation in."""
    nodes = faded(engine, nodes)
    x, increments = engine.inner.step(nodes.constants, nodes.x, y, inputs)
    log_likelihood = nodes.log_likelihood + jnp.where(jnp.isfinite(increments), increments, IMPOSSIBLE)
    largest = jnp.max(log_likelihood)
    moved = replace(nodes, x=x, log_likelihood=log_likelihood - largest, offset=nodes.offset.add(largest))
    log_total, ess = total_and_size(moved.log_weights)
    return replace(moved, log_total=log_total, ess=ess)


def faded(engine: NodeEngine, nodes: Nodes) -> Nodes:
    """Count old observations less, if the filter forgets: a step of time makes the posterior more like the prior.

    The log evidence stays: it is that of forecasts which were made before they were forgotten.
    """
    if engine.memory is None:
        return nodes
    older = replace(
        nodes,
        log_likelihood=nodes.log_likelihood * (1 - 1 / engine.memory),
        offset=nodes.offset.add(-nodes.offset.value / engine.memory),
    )
    older = replace(older, log_total=total_and_size(older.log_weights)[0])
    lost = nodes.offset.less(older.offset) + (nodes.log_total - older.log_total)
    return replace(older, faded=nodes.faded.add(lost))


def total_and_size(log_weights: Float[Array, " node"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Return the log of the sum of weights and their effective sample size."""
    largest = jnp.max(log_weights)
    weights = jnp.exp(log_weights - largest)
    total = jnp.sum(weights)
    return largest + jnp.log(total), total**2 / jnp.sum(weights**2)


def next_state(
    engine: NodeEngine, state: NodeState, y: Observation, inputs: Inputs
) -> tuple[NodeState, Int[Array, ""]]:
    """Take in one observation; return the flags of this step too. Whether nodes have to be renewed, `is_due` tells."""
    is_refused, y = refused(y)
    keep = lambda kept, leaf: kept.at[engine.place(state.time)].set(leaf, mode="drop")  # beyond the room: dropped
    kept = state.kept
    flags = jnp.where(is_refused, int(Outcome.OBSERVATION_NOT_FINITE), 0)
    moved = replace(
        state,
        time=state.time + 1,
        nodes=observe(engine, state.nodes, y, inputs),
        kept=replace(kept, ys=jax.tree.map(keep, kept.ys, y), inputs=jax.tree.map(keep, kept.inputs, inputs)),
        outcome=state.outcome | flags,
    )
    return moved, flags


def refused(y: Observation) -> tuple[Bool[Array, ""], Observation]:
    """Tell whether an observation is infinite, and return it as missing if it is."""
    is_refused = jnp.any(jnp.stack([jnp.any(jnp.isinf(leaf)) for leaf in jax.tree.leaves(y)]))
    return is_refused, jax.tree.map(lambda leaf: jnp.where(is_refused, jnp.nan, leaf), y)


def is_due(engine: NodeEngine, state: NodeState) -> Bool[Numbers, ""]:
    """Tell whether too few nodes are left where the posterior is."""
    needed = state.time, state.nodes.ess, state.trigger
    time, ess, trigger = needed if is_traced(needed) else on_host(needed)
    lowest = LOWEST_BEFORE_SURFACES * engine.num_nodes if engine.memory is None else np.inf
    return ess < numbers(needed).where(is_milestone(engine, time), lowest, trigger)


def is_milestone(engine: NodeEngine, time: Int[Numbers, ""]) -> Bool[Numbers, ""]:
    """Tell whether this was the last observation that is kept, after which nodes are renewed by surfaces.

    A filter that forgets has no last one: later replays may begin here, from the state of the heaviest node.
    """
    return time == engine.num_kept if engine.memory is None else time % engine.stride == 0
