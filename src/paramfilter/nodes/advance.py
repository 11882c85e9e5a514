"""One compiled program for `step` and `run`: steps over the rows of a window of data, until nodes have to be renewed.

Renewing is left to the caller (`NodeFilter.advance`), who comes back with new nodes and goes on where the program
stopped. Inside a trace there is no such caller, and `renewed_step` does both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from paramfilter import distributions
from paramfilter.beliefs import Moments
from paramfilter.filters.advance import WINDOW, History, Maker, Summary
from paramfilter.filters.state import StepInfo
from paramfilter.nodes.loop import is_due, next_state
from paramfilter.nodes.state import Nodes, NodeState
from paramfilter.types import Inputs, Observation
from paramfilter.weights import at_levels

if TYPE_CHECKING:
    from paramfilter.nodes.filter import NodeFilter


NUM_FORECASTING = 32
"""Nodes, chosen by weight, that say where an observation lies in its forecast."""
GOLDEN = 2_654_435_769
"""2^32 over the golden ratio: its multiples modulo 2^32 fill the range evenly, however many there are."""


def advance(
    filter: NodeFilter,
    state: NodeState,
    records: History,
    ys: Observation,
    inputs: Inputs,
    start: Int[Array, ""],
    stop: Int[Array, ""],
) -> tuple[NodeState, History, Int[Array, ""]]:
    """Take steps from row `start` up to `stop`, or fewer if nodes have to be renewed; return the row that is next."""

    def turn(carry):
        index, state, records = carry
        y, inputs_now = jax.tree.map(lambda leaf: leaf[index], (ys, inputs))
        after, info = observed_step(filter, state, y, inputs_now)
        row = summarise(filter, after, info)
        return index + 1, after, jax.tree.map(lambda rows, leaf: rows.at[index].set(leaf), records, row)

    def goes_on(carry):
        index, state, _ = carry
        return (index < stop) & ((index == start) | ~is_due(state))

    index, state, records = jax.lax.while_loop(goes_on, turn, (start, state, records))
    return state, records, index


def pit_of(filter: NodeFilter, state: NodeState, y: Observation, inputs: Inputs) -> Observation:
    """Return where each component of y lies in its forecast, between 0 and 1; NaN if missing or not known.

    Where a law has atoms, the place within an atom is that of the time in a sequence that fills the unit interval.
    """
    nodes = state.nodes
    weights = jnp.exp(nodes.log_weights - nodes.log_total)
    chosen = at_levels(weights, (jnp.arange(NUM_FORECASTING, dtype=weights.dtype) + 0.5) / NUM_FORECASTING)
    theta = jax.tree.map(lambda leaf: leaf[chosen], nodes.theta)
    x = jax.tree.map(lambda leaf: jnp.take(leaf, chosen, axis=-1), nodes.x)
    lower, upper = filter.inner.forecast(filter.inner.prepare(theta), x, y, inputs)
    within = (state.time.astype(jnp.uint32) * np.uint32(GOLDEN)).astype(weights.dtype) / 2.0**32
    place = jnp.mean(lower + within * (upper - lower), axis=1)
    ranks = jnp.where(jnp.isnan(distributions.ravel(y)), jnp.nan, jnp.clip(place, 0.0, 1.0))
    leaves, structure = jax.tree.flatten(y)
    ends = np.cumsum([np.size(leaf) for leaf in leaves])
    parts = jnp.split(ranks, ends[:-1])
    return jax.tree.unflatten(
        structure, [part.reshape(np.shape(leaf)) for part, leaf in zip(parts, leaves, strict=True)]
    )


def observed_step(filter: NodeFilter, before: NodeState, y: Observation, inputs: Inputs) -> tuple[NodeState, StepInfo]:
    """Take in one observation, without renewing nodes, and say what happened."""
    after, flags = next_state(filter, before, y, inputs)
    return after, StepInfo(
        ess=after.nodes.ess,
        log_evidence_increment=log_evidence_increment(before, after),
        outcome=flags,
        resampled=jnp.bool_(False),
        num_nan=jnp.int32(0),
        approximation_error=jnp.sqrt(jnp.max(after.surface_error)),
        rhat=jnp.full(filter.model.parameters.dimension, jnp.nan),
        num_ancestors=jnp.int32(filter.num_nodes),
        pit=pit_of(filter, before, y, inputs),
    )


def log_evidence_increment(before: NodeState, after: NodeState) -> Float[Array, ""]:
    """Return log p(y_t | y_1..y_{t-1}), nodes being the same before and after."""
    taken_off = (after.nodes.offset.total - before.nodes.offset.total) + (
        after.nodes.offset.lost - before.nodes.offset.lost
    )
    return taken_off + after.nodes.log_total - before.nodes.log_total


def summarise(filter: NodeFilter, state: NodeState, info: StepInfo) -> History:
    """Return one row of the history."""
    moments = theta_moments(state)
    means, variances = filter.inner.moments(state.nodes.x)
    mean, between = weighted_moments(state.nodes, means)
    within = weighted_moments(state.nodes, variances)[0]
    return History(
        theta=Summary(moments.mean, jax.tree.map(jnp.sqrt, moments.variance)),
        x=Summary(mean, jax.tree.map(lambda own, apart: jnp.sqrt(own + apart), within, between)),
        info=info,
        maker=Maker(filter),
    )


def theta_moments(state: NodeState) -> Moments:
    """Return mean and variance of each parameter over the weighted nodes."""
    return Moments(*weighted_moments(state.nodes, state.nodes.theta))


def weighted_moments(nodes: Nodes, values: PyTree) -> tuple[PyTree, PyTree]:
    """Return mean and variance over the nodes of values with a leading axis of nodes."""
    weights = jnp.exp(nodes.log_weights - nodes.log_total)
    spread = lambda leaf: weights.reshape(-1, *[1] * (leaf.ndim - 1))
    # A node without weight may hold anything, also NaN.
    values = jax.tree.map(lambda leaf: jnp.where(spread(leaf) > 0, leaf, 0.0), values)
    mean = jax.tree.map(lambda leaf: jnp.sum(spread(leaf) * leaf, axis=0), values)
    square = lambda leaf, middle: jnp.sum(spread(leaf) * (leaf - middle) ** 2, axis=0)
    return mean, jax.tree.map(square, values, mean)


def empty_records(filter: NodeFilter, state: NodeState) -> History:
    """Return a history of `WINDOW` rows to be filled."""
    y = filter.observation_shapes
    row = jax.eval_shape(
        lambda state, y, inputs: summarise(filter, *observed_step(filter, state, y, inputs)),
        state,
        y,
        filter.input_shapes,
    )
    # Put where the program wants it, once: it goes in with every call.
    return jax.device_put(jax.tree.map(lambda leaf: np.zeros((WINDOW, *leaf.shape), leaf.dtype), row))
