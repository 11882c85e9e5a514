"""New nodes in place of those that have lost the posterior: by replay while data are kept, and by a surface later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from paramfilter.nodes.advance import observed_step
from paramfilter.nodes.loop import IMPOSSIBLE, fresh_nodes, is_due, total_and_size
from paramfilter.nodes.proposals import Prior
from paramfilter.nodes.replay import COLLAPSED, as_known, node_points, renew_by_replay
from paramfilter.nodes.state import NodeInfo, Nodes, NodeState
from paramfilter.nodes.stretch import take_in, take_in_one
from paramfilter.nodes.surfaces import Surface, fit_surface
from paramfilter.numerics.sparse import sparse_cond
from paramfilter.outcome import Outcome
from paramfilter.tracing import RUN_ONCE, is_traced, numbers, on_host
from paramfilter.types import Inputs, Numbers, Observation

if TYPE_CHECKING:
    from paramfilter.nodes.filter import NodeEngine

SOON = 0.3
"""Share of effective nodes below which nodes are renewed once it is done by a surface: it costs little, and the fit is
better with more of them."""
LARGEST_MISFIT = 0.2
"""Nats that a surface may miss, leaving one node out, before it is flagged."""
LARGEST_EDGE = 0.08
"""Share of new nodes that may lie where the surface is not trusted, before it is flagged."""
SHARE_OF_FLEET = 128
"""Of the series that are stepped side by side, 1/128 are renewed at a time: one."""
LARGEST_LOSS = 3.0
"""Nats of evidence that may be lost when nodes are replaced. If more are, the new nodes miss the posterior, and the old
ones are kept."""
CORE = 25.0
"""Nats below the top within which nodes say what values a state may have."""

Way = Callable[["NodeEngine", NodeState], NodeState]


def renew(engine: NodeEngine, state: NodeState) -> tuple[NodeState, Int[Numbers, ""]]:
    """Replace the nodes, outside of a trace; return the flags that this raised too."""
    state = on_host(state)
    return _flagged(engine, renew_by_replay if engine.can_replay(state.time) else renew_by_surface, state)


def _flagged(engine: NodeEngine, way: Way, state: NodeState) -> tuple[NodeState, Int[Numbers, ""]]:
    renewed = way(engine, replace(state, outcome=numbers(state).zeros_like(state.outcome)))
    return replace(renewed, outcome=state.outcome | renewed.outcome), renewed.outcome


def renewed_step(
    engine: NodeEngine, state: NodeState, y: Observation, inputs: Inputs, has_one: Bool[Array, ""]
) -> tuple[NodeState, NodeInfo]:
    """Take in one observation if there is one, and renew the nodes if it is time, inside a trace."""
    take_it_in = lambda engine, state, y, inputs: take_in_one(engine, state, y, inputs, has_one)
    after, info = observed_step(engine, state, y, inputs, take_it_in)
    if_there = lambda new, old: jnp.where(has_one, new, old)
    after = replace(after, skipped=jax.tree.map(if_there, after.skipped, state.skipped))
    is_time = has_one & is_due(engine, after)
    after, flags = _renewed(engine, after, is_time)
    return after, replace(info, renewed=is_time, outcome=info.outcome | flags)


def renewed_run(
    engine: NodeEngine, state: NodeState, ys: Observation, inputs: Inputs, length: Int[Array, ""]
) -> NodeState:
    """Take in the first rows of a window, and renew the nodes whenever it is time, inside a trace."""

    def turn(carry):
        start, state = carry
        after, index, _ = take_in(engine, state, ys, inputs, start, length)
        return index, _renewed(engine, after, is_due(engine, after) & (index > start))[0]

    return jax.lax.while_loop(lambda carry: carry[0] < length, turn, (jnp.int32(0), state))[1]


def _renewed(engine: NodeEngine, state: NodeState, is_time: Bool[Array, ""]) -> tuple[NodeState, Int[Array, ""]]:
    """Renew the nodes if it is time; return the flags that this raised too."""
    is_kept = engine.can_replay(state.time)
    renewed, flags = _if_due(engine, renew_by_replay, is_time & is_kept, state, jnp.zeros_like(state.outcome))
    return _if_due(engine, renew_by_surface, is_time & ~is_kept, renewed, flags)


def _if_due(engine: NodeEngine, way: Way, is_time: Any, state: NodeState, flags: Any) -> tuple[NodeState, Any]:
    """Renew the nodes in one way if it is time; in a batch, at the price of those whose time it is."""
    key, fingerprint = state.key, state.fingerprint
    plain = replace(state, key=jax.random.key_data(key))  # keys cannot be gathered by index

    def branch(plain):
        whole = replace(plain, key=jax.random.wrap_key_data(plain.key, impl=jax.random.key_impl(key)))
        renewed, flags = _flagged(engine, way, whole)
        return replace(renewed, key=plain.key), flags

    renewed, flags = sparse_cond(is_time, branch, plain, (plain, flags), SHARE_OF_FLEET)
    return replace(renewed, key=key, fingerprint=fingerprint), flags


def renew_by_surface(engine: NodeEngine, state: NodeState) -> NodeState:
    """Replace the nodes without looking back: log likelihood and inner states come from a fit to the present nodes."""
    xp = numbers(state)
    precision = jnp.result_type(float) if is_traced(state) else np.float64
    old = jax.tree.map(lambda leaf: xp.asarray(leaf, precision), replace(state.nodes, constants=None, theta=None))
    weights = xp.exp(old.log_weights - old.log_total)
    surface = fit_surface(old.z, old.log_likelihood, old.log_prior, weights)
    around = engine.mixture(old.z, old.log_weights, old.log_flat, surface.wide)
    e, choice = engine.compiled(node_points, compiler_options=RUN_ONCE)(state.key, state.time, xp.ones((), xp.int32))
    z = around.at(xp.asarray(e, precision), xp.asarray(choice, precision))
    log_likelihood, is_inside = surface.at(z)
    log_likelihood = xp.where(is_inside, log_likelihood, IMPOSSIBLE)
    x = _states(engine, surface, old, z)
    as_usual = lambda leaf: xp.asarray(leaf, jnp.result_type(float))
    nodes = engine.compiled(_with_past)(
        *map(as_usual, (z, around.log_density(z), log_likelihood)),
        jax.tree.map(as_usual, x),
        state.nodes.offset,
        state.nodes.faded,
        as_usual(surface.highest),
        state.kept.prior,
    )
    is_lost = ~((nodes.ess > state.nodes.ess) & (nodes.log_total > state.nodes.log_total - LARGEST_LOSS))
    nodes = jax.tree.map(lambda new, old: xp.where(is_lost, old, new), nodes, state.nodes)
    is_bad = is_lost | (surface.misfit > LARGEST_MISFIT) | (xp.mean(~is_inside) > LARGEST_EDGE)
    added = xp.where(is_lost, 0.0, surface.squared_error(old.z, weights))
    return replace(
        state,
        nodes=nodes,
        trigger=as_usual(xp.maximum(xp.minimum(SOON * engine.num_nodes, xp.asarray(nodes.ess) / 2), COLLAPSED)),
        surface_error=as_usual(state.surface_error + added),
        outcome=state.outcome | xp.where(is_bad, int(Outcome.SURFACE_INACCURATE), 0).astype(state.outcome.dtype),
    )


def _states(engine: NodeEngine, surface: Surface, old: Nodes, z: Float[Numbers, "node param"]) -> Any:
    """Return inner states at new nodes: each number is smooth in theta, and within what the old nodes have seen."""
    xp = numbers(old.z, z)
    log_posterior = old.log_prior + old.log_likelihood
    is_core = log_posterior > xp.max(log_posterior) - CORE
    shares = surface.shares(z, old.z, is_core)

    def fitted(leaf):
        rows = leaf.reshape(-1, leaf.shape[-1])
        low = xp.min(xp.where(is_core, rows, xp.inf), axis=1, keepdims=True)
        high = xp.max(xp.where(is_core, rows, -xp.inf), axis=1, keepdims=True)
        middle = xp.sum(xp.where(is_core, rows, 0.0), axis=1, keepdims=True) / xp.sum(is_core)
        values = middle + xp.where(is_core & xp.isfinite(rows), rows - middle, 0.0) @ shares.T
        return xp.clip(values, low, high).reshape(*leaf.shape[:-1], -1)

    return jax.tree.map(fitted, as_known(engine.compiled(_loose, compiler_options=RUN_ONCE)(old.x)))


def _loose(engine: NodeEngine, x: Any) -> Any:
    return engine.inner.loosened(x)


def _with_past(
    engine: NodeEngine,
    z: Any,
    log_proposal: Any,
    log_likelihood: Any,
    x: Any,
    offset: Any,
    faded: Any,
    highest: Any,
    prior: Prior,
) -> Nodes:
    """Make nodes whose past is known from elsewhere."""
    nodes = fresh_nodes(engine, z, log_proposal, prior, engine.example_inputs)
    log_likelihood = jnp.where(nodes.log_prior + log_likelihood > highest, IMPOSSIBLE, log_likelihood)
    nodes = replace(nodes, x=engine.inner.tightened(x), log_likelihood=log_likelihood, offset=offset, faded=faded)
    log_total, ess = total_and_size(nodes.log_weights)
    return replace(nodes, log_total=log_total, ess=ess)
