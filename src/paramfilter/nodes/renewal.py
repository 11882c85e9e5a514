"""New nodes in place of those that have lost the posterior: by replay while data are kept, and by a surface later."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from paramfilter.nodes.loop import IMPOSSIBLE, fresh_nodes, is_due, total_and_size
from paramfilter.nodes.proposals import Prior
from paramfilter.nodes.replay import COLLAPSED, as_known, node_points, renew_by_replay
from paramfilter.nodes.state import NodeInfo, Nodes, NodeState
from paramfilter.nodes.stretch import step_if
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


def renew_in_trace(engine: NodeEngine, state: NodeState) -> tuple[NodeState, Int[Array, ""]]:
    """Replace the nodes, inside a trace; return the flags that this raised too."""
    if engine.memory is not None:
        return _flagged(engine, renew_by_replay, state)
    ways = (lambda state, way=way: _flagged(engine, way, state) for way in (renew_by_replay, renew_by_surface))
    return jax.lax.cond(engine.can_replay(state.time), *ways, state)


def renewed_step(engine: NodeEngine, state: NodeState, y: Observation, inputs: Inputs) -> tuple[NodeState, NodeInfo]:
    """Take in one observation, and renew the nodes if it is time, inside a trace."""
    after, info = step_if(engine, state, y, inputs, jnp.bool_(True))
    is_time, renew = is_due(engine, after), functools.partial(renew_in_trace, engine)
    renewed, flags = sparse_cond(is_time, renew, after, (after, jnp.zeros_like(after.outcome)))
    return renewed, replace(info, renewed=is_time, outcome=info.outcome | flags)


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
