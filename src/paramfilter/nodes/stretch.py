"""Observations between two renewals, inside a trace: what fleets do, many series side by side.

Under `vmap` a loop goes on until the last row is done, and in each turn it copies all that goes round for the rows that
wait. So only what a step changes goes round: what each node knows, and its log likelihood. Observations are put where
they are kept after the loop, all at once.

A step of one observation is a stretch of length one, so that steps and runs use the same compiled arithmetic.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from paramfilter.nodes.advance import observed_step
from paramfilter.nodes.loop import is_milestone, observe, refused
from paramfilter.nodes.state import Kept, NodeInfo, NodeState
from paramfilter.outcome import Outcome
from paramfilter.types import Inputs, Observation

if TYPE_CHECKING:
    from paramfilter.nodes.filter import NodeEngine


def take_in(
    engine: NodeEngine,
    state: NodeState,
    ys: Observation,
    inputs: Inputs,
    start: Int[Array, ""],
    stop: Int[Array, ""],
) -> tuple[NodeState, Int[Array, ""], Int[Array, ""]]:
    """Take in the rows of a window from `start` up to `stop`, or fewer if nodes have to be renewed.

    Returns:
        The state, the row that is next, and the flags that these rows raised.
    """
    are_refused, ys = jax.vmap(refused)(ys)

    def turn(carry):
        index, nodes = carry
        y, inputs_now = jax.tree.map(lambda leaf: leaf[index], (ys, inputs))
        return index + 1, observe(engine, nodes, y, inputs_now)

    def goes_on(carry):
        index, nodes = carry
        is_enough = (nodes.ess >= state.trigger) & ~is_milestone(engine, state.time + index - start)
        return (index < stop) & ((index == start) | is_enough)

    index, nodes = jax.lax.while_loop(goes_on, turn, (start, state.nodes))
    rows = jnp.arange(len(are_refused))
    times, is_taken = state.time + rows - start, (rows >= start) & (rows < index)
    flags = jnp.where(jnp.any(is_taken & are_refused), int(Outcome.OBSERVATION_NOT_FINITE), 0)
    moved = replace(
        state,
        time=state.time + index - start,
        nodes=nodes,
        kept=_with_rows(state.kept, ys, inputs, jnp.where(is_taken, engine.place(times), engine.num_kept)),
        outcome=state.outcome | flags,
    )
    return moved, index, flags


def _with_rows(kept: Kept, ys: Observation, inputs: Inputs, places: Int[Array, " time"]) -> Kept:
    """Put rows where they are kept; beyond the room they are dropped."""
    put = lambda room, leaf: room.at[places].set(leaf, mode="drop")
    return replace(kept, ys=jax.tree.map(put, kept.ys, ys), inputs=jax.tree.map(put, kept.inputs, inputs))


def step_if(
    engine: NodeEngine, state: NodeState, y: Observation, inputs: Inputs, has_one: Bool[Array, ""]
) -> tuple[NodeState, NodeInfo]:
    """Take in one observation if there is one, and say what happened, which means nothing if there is none."""
    # XLA must not know the number of turns: it would take the loop away, and compile its body in another way.
    stop = jax.lax.optimization_barrier(has_one.astype(jnp.int32))

    def take_one(engine, state, y, inputs):
        ys, rows = jax.tree.map(lambda leaf: leaf[None], (y, inputs))
        after, _, flags = take_in(engine, state, ys, rows, jnp.int32(0), stop)
        return after, flags

    after, info = observed_step(engine, state, y, inputs, take_one)
    if_there = lambda new, old: jnp.where(has_one, new, old)
    return replace(after, skipped=jax.tree.map(if_there, after.skipped, state.skipped)), info
