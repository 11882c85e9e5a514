"""One compiled program for `step` and `run`: steps over the rows of a window of data, until nodes have to be renewed.

Renewing is left to the caller (`NodeEngine.advance`), who comes back with new nodes and goes on where the program
stopped. Inside a trace there is no such caller, and `renewed_step` does both.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from paramfilter import distributions
from paramfilter.filters import Moments
from paramfilter.filters.history import History, Summary
from paramfilter.filters.outliers import has_grown, widened
from paramfilter.filters.quantiles import as_points, as_theta
from paramfilter.filters.window import WINDOW
from paramfilter.nodes.inner.forecast import Forecast
from paramfilter.nodes.loop import is_due, next_state
from paramfilter.nodes.state import NodeInfo, NodeState
from paramfilter.numerics.quantiles import SortedPoints, normal_quantiles
from paramfilter.outcome import Outcome
from paramfilter.types import Inputs, Observation

if TYPE_CHECKING:
    from paramfilter.nodes.filter import NodeEngine

Way = Callable[["NodeEngine", NodeState, Observation, Inputs], tuple[NodeState, Int[Array, ""]]]

NUM_FORECASTING = 32
"""Nodes that forecast an observation, at even distances in the lattice, so that they are a lattice too."""
GOLDEN = 2_654_435_769
"""2^32 over the golden ratio: its multiples modulo 2^32 fill the range evenly, however many there are."""


def advance(
    engine: NodeEngine,
    state: NodeState,
    records: History,
    ys: Observation,
    inputs: Inputs,
    start: Int[Array, ""],
    stop: Int[Array, ""],
    has_summaries: Bool[Array, ""],
) -> tuple[NodeState, History, Int[Array, ""]]:
    """Take steps from row `start` up to `stop`, or fewer if nodes have to be renewed; return the row that is next.

    Without summaries, which cost more than the rest of a step, records hold only what happened in each step.
    """
    in_order = functools.partial(sorted_values, engine)  # nodes stay where they are until they are renewed
    values = jax.lax.cond(has_summaries, in_order, lambda state: zeros_like(jax.eval_shape(in_order, state)), state)
    blank = jax.tree.map(lambda rows: rows[0], records)

    def turn(carry):
        index, state, records = carry
        y, inputs_now = jax.tree.map(lambda leaf: leaf[index], (ys, inputs))
        after, info = observed_step(engine, state, y, inputs_now)
        summary = lambda after, info: summarise(engine, after, info, values)
        row = jax.lax.cond(has_summaries, summary, lambda _, info: replace(blank, info=info), after, info)
        return index + 1, after, jax.tree.map(lambda rows, leaf: rows.at[index].set(leaf), records, row)

    def goes_on(carry):
        index, state, _ = carry
        return (index < stop) & ((index == start) | ~is_due(engine, state))

    index, state, records = jax.lax.while_loop(goes_on, turn, (start, state, records))
    return state, records, index


def zeros_like(shapes: PyTree) -> PyTree:
    """Return zeros of these shapes."""
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)


def forecast_by_nodes(engine: NodeEngine, state: NodeState, y: Observation, inputs: Inputs) -> Forecast:
    """Return the forecast of y, whose components are in one row, before it is taken in."""
    nodes = state.nodes
    every = slice(None, None, max(1, engine.num_nodes // NUM_FORECASTING))
    weights = jax.nn.softmax(nodes.log_weights[every])
    constants, x = jax.tree.map(lambda leaf: leaf[..., every], (nodes.constants, nodes.x))
    return engine.inner.forecast(constants, x, y, inputs).averaged(weights)


def pit_of(forecast: Forecast, time: Int[Array, ""], y: Observation) -> Float[Array, " obs"]:
    """Return where each component of y lies in its forecast, between 0 and 1; NaN if missing or not known.

    Where a distribution has atoms, the place within an atom is that of the time in a sequence that fills the unit
    interval.
    """
    within = (time.astype(jnp.uint32) * np.uint32(GOLDEN)).astype(forecast.lower.dtype) / 2.0**32
    place = forecast.lower + within * (forecast.upper - forecast.lower)
    return jnp.where(jnp.isnan(distributions.ravel(y)), jnp.nan, jnp.clip(place, 0.0, 1.0))


def forecast_quantiles(forecast: Forecast, y: Observation) -> Observation:
    """Return quantiles of a normal distribution with the mean and variance of a forecast, in the form of y."""
    return jax.tree.map(normal_quantiles, like(y, forecast.mean), like(y, jnp.sqrt(forecast.variance)))


def like(y: Observation, values: Float[Array, " obs"]) -> Observation:
    """Give a row of numbers the form of an observation."""
    leaves, structure = jax.tree.flatten(y)
    ends = np.cumsum([np.size(leaf) for leaf in leaves])
    parts = zip(jnp.split(values, ends[:-1]), leaves, strict=True)
    return structure.unflatten([part.reshape(np.shape(leaf)) for part, leaf in parts])


def observed_step(
    engine: NodeEngine, before: NodeState, y: Observation, inputs: Inputs, take_in: Way = next_state
) -> tuple[NodeState, NodeInfo]:
    """Take in one observation in some way, without renewing nodes, and say what happened."""
    forecast = forecast_by_nodes(engine, before, y, inputs)
    taken, skipped, flags = y, before.skipped, jnp.int32(0)
    if engine.outliers is not None:
        mean, sd = like(y, forecast.mean), like(y, jnp.sqrt(forecast.variance))
        taken, skipped = engine.outliers.screen(y, mean, widened(sd, engine.shapes.y), before.skipped)
        flags = jnp.where(has_grown(skipped, before.skipped), int(Outcome.OUTLIER_SKIPPED), 0)
    after, other_flags = take_in(engine, replace(before, outcome=before.outcome | flags), taken, inputs)
    after, flags = replace(after, skipped=skipped), flags | other_flags
    return after, NodeInfo(
        ess=after.nodes.ess,
        log_evidence_increment=log_evidence_increment(before, after),
        outcome=flags,
        renewed=jnp.bool_(False),
        surface_error=jnp.sqrt(jnp.max(after.surface_error)),
        forecast=forecast_quantiles(forecast, y),
        pit=like(y, pit_of(forecast, before.time, y)),
    )


def log_evidence_increment(before: NodeState, after: NodeState) -> Float[Array, ""]:
    """Return log p(y_t | y_1..y_{t-1}), nodes being the same before and after."""
    old, new = before.nodes, after.nodes
    return new.offset.less(old.offset) + new.faded.less(old.faded) + new.log_total - old.log_total


def sorted_values(engine: NodeEngine, state: NodeState) -> SortedPoints:
    """Return the nodes in the order of each parameter."""
    return SortedPoints.of(as_points(engine.model.parameters, state.nodes.z))


def summarise(engine: NodeEngine, state: NodeState, info: NodeInfo, values: SortedPoints | None = None) -> History:
    """Return one row of the history; `values` are the sorted nodes, if they are known."""
    values = sorted_values(engine, state) if values is None else values
    moments, parameters = theta_moments(state), engine.model.parameters
    mean, variance = state_mean_and_variance(engine, state)
    weights = node_weights(state)
    of_theta = as_theta(parameters, values.quantiles(weights))
    sd = jax.tree.map(jnp.sqrt, variance)
    # Given theta the state is normal in most inner filters, and a mixture over nodes that agree is nearly so.
    of_state = jax.tree.map(normal_quantiles, mean, sd)
    return History(
        theta=Summary(moments.mean, jax.tree.map(jnp.sqrt, moments.variance), of_theta),
        x=Summary(mean, sd, of_state),
        info=info,
    )


def state_mean_and_variance(engine: NodeEngine, state: NodeState) -> tuple[PyTree, PyTree]:
    """Return filtered mean and variance of the state: of the mixture of what the nodes know."""
    means, variances = engine.inner.moments(state.nodes.x)
    weights = node_weights(state)
    mean, between = weighted_moments(weights, means)
    within = weighted_moments(weights, variances)[0]
    return mean, jax.tree.map(jnp.add, within, between)


def theta_moments(state: NodeState) -> Moments:
    """Return mean and variance of each parameter over the weighted nodes."""
    return Moments(*weighted_moments(node_weights(state), state.nodes.theta))


def node_weights(state: NodeState) -> Float[Array, " node"]:
    """Return the weights of the nodes, which sum to one."""
    return jnp.exp(state.nodes.log_weights - state.nodes.log_total)


def weighted_moments(weights: Float[Array, " point"], values: PyTree) -> tuple[PyTree, PyTree]:
    """Return mean and variance over weighted points of values with a leading axis of points."""

    def mean_and_variance(leaf):
        rows = leaf.reshape(len(weights), -1).T
        rows = jnp.where(weights > 0, rows, 0.0)  # a point without weight may hold anything, also NaN
        mean = rows @ weights
        return [part.reshape(leaf.shape[1:]) for part in (mean, (rows - mean[:, None]) ** 2 @ weights)]

    leaves, structure = jax.tree.flatten(values)
    means, variances = zip(*map(mean_and_variance, leaves), strict=True)
    return structure.unflatten(means), structure.unflatten(variances)


def empty_records(engine: NodeEngine, state: NodeState) -> History:
    """Return a history of `WINDOW` rows to be filled."""
    y = engine.observation_shapes
    row = jax.eval_shape(
        lambda state, y, inputs: summarise(engine, *observed_step(engine, state, y, inputs)),
        state,
        y,
        engine.input_shapes,
    )
    # Put where the program wants it, once: it goes in with every call.
    return jax.device_put(jax.tree.map(lambda leaf: np.zeros((WINDOW, *leaf.shape), leaf.dtype), row))
