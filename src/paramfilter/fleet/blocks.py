"""What is done to the rows of a fleet: a block of them side by side, block after block, each row by itself.

A program stops taking observations for a row whose nodes are to be renewed. The host then renews such rows by a program
of their own, and calls the first one again, until all rows have taken all that is theirs (`through`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Shaped

from paramfilter.filters import Engine, Moments, StepInfo
from paramfilter.fleet.rows import choose
from paramfilter.fleet.scores import FleetScores
from paramfilter.types import Inputs, Observation

BLOCK = 16
"""Series that are stepped side by side, block after block: what they need in between fits into a processor's cache, and
there is no row left over that vector instructions would treat in another way."""

WINDOW = 32
"""Times of each row that one call can take: a step fills one of them, so a wider one costs memory and saves calls."""

BUCKET_FACTOR = 4
"""A sparse batch is filled up to a block times the next power of this: few sizes, so few compiles."""

Describe = Callable[[Any, Observation, Inputs, Any, StepInfo], Any]
"""Called as `describe(before, y, inputs, after, info)` for each step."""


def begin(engine: Engine, keys: Shaped[Array, " row"], inputs: Inputs, prior: Any) -> Any:
    """Start a filter for each key, from the model's prior or from another."""
    return in_blocks(engine.init, keys, inputs, prior)


def advance(
    engine: Engine,
    describe: Describe,
    rows: Any,
    ys: Observation,
    inputs: Inputs,
    starts: Int[Array, " row"],
    lengths: Int[Array, " row"],
    pack: Callable[[Any], Any] = lambda state: state,
    unpack: Callable[[Any], Any] = lambda row: row,
) -> tuple[Any, Int[Array, " row"], Bool[Array, " row"], Any]:
    """Take in the observations of a window, of each row until it is due to be renewed.

    Args:
        engine: Of the filter of each row.
        describe: What to return of each step.
        rows: The states.
        ys: Observations with leading axes of rows and times.
        inputs: The same of inputs, or None.
        starts: Which observation is next for each row.
        lengths: How many observations each row has in this window.
        pack: Makes a row of a state.
        unpack: Makes a state of a row.

    Returns:
        The new rows; which observation is next for each; which rows are due; and what `describe` returned, with leading
        axes of rows and times, which means nothing but for the steps that were taken.
    """

    def take_in(state, y, inputs, has_one):
        new, info = engine.step_if(state, y, inputs, has_one)
        return new, has_one & engine.is_due(new), describe(state, y, inputs, new, info)

    def one_block(block):
        (rows, *others), given, start, length = block

        def turn(now, carry):
            own, nexts, are_due, described = carry
            y, inputs = jax.tree.map(lambda leaf: leaf[:, now], given)
            has_one = (nexts == now) & (now < length) & ~are_due
            own, became_due, found = jax.vmap(take_in)(own, y, inputs, has_one)
            described = jax.tree.map(lambda leaf, part: leaf.at[:, now].set(part), described, found)
            return own, nexts + has_one, are_due | became_due, described

        first = jnp.min(jnp.where(start < length, start, length))
        own, *others = jax.lax.fori_loop(first, jnp.max(length), turn, (jax.vmap(unpack)(rows), *others))
        return jax.vmap(pack)(own), *others

    first = jax.tree.map(lambda leaf: leaf[:, 0], (ys, inputs))
    some = jax.eval_shape(jax.vmap(unpack), rows)
    shapes = jax.eval_shape(jax.vmap(take_in), some, *first, lengths > 0)[2]
    num_times = jax.tree.leaves(ys)[0].shape[1]
    blank = jax.tree.map(lambda leaf: jnp.zeros((len(lengths), num_times, *leaf.shape[1:]), leaf.dtype), shapes)
    given = (rows, starts, jnp.zeros(len(lengths), bool), blank), (ys, inputs), starts, lengths
    by_block = jax.tree.map(lambda leaf: leaf.reshape(-1, BLOCK, *leaf.shape[1:]), given)
    found = jax.lax.map(one_block, by_block)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), found)


def through(
    advance: Callable[[Any, np.ndarray], Any],
    renew: Callable[[Any, np.ndarray, np.ndarray], Any] | None,
    rows: Any,
    lengths: Int[np.ndarray, " row"],
) -> tuple[Any, Any]:
    """Take in all observations of a window, and renew rows whenever some are due; return what was described too.

    Args:
        advance: Calls the program of that name with rows and starts.
        renew: Called with the rows, the places of those that are due, and the times of their last steps; returns the
            rows. None if no state is ever due.
        rows: The states.
        lengths: How many observations each row has.
    """
    rows, nexts, are_due, described = advance(rows, np.zeros_like(lengths))
    while renew is not None:
        nexts, due = np.asarray(nexts), np.flatnonzero(are_due)
        rows = renew(rows, due, nexts[due] - 1) if len(due) else rows
        if np.all(nexts >= lengths):
            break
        starts = nexts
        rows, nexts, are_due, found = advance(rows, starts)
        later = lambda old, new, starts=starts: choose(np.arange(new.shape[1]) >= starts[:, None], new, old)
        described = jax.tree.map(later, described, found)
    return rows, described


step = lambda engine, *given: advance(engine, lambda *one: one[-1], *given)
run = lambda engine, *given: advance(engine, lambda *one: None, *given)  # nothing is told, so no forecasts are made
run_scored = lambda engine, *given: advance(engine, lambda *one: FleetScores.of(one[-1]), *given)


def update(
    engine: Engine, series: Any, places: Int[Array, " some"], ys: Observation, inputs: Inputs
) -> tuple[Any, Bool[Array, " some"], StepInfo]:
    """Take in one observation of some rows; what is beyond the last row is dropped."""
    ys, inputs = jax.tree.map(lambda leaf: leaf[:, None], (ys, inputs))
    when = jnp.zeros_like(places), jnp.ones_like(places)
    new, _, are_due, info = step(engine, take(engine, series, places), ys, inputs, *when)
    return put(engine, series, places, new), are_due, jax.tree.map(lambda leaf: leaf[:, 0], info)


def take(engine: Engine, series: Any, places: Int[Array, " some"]) -> Any:
    """Return some rows; in place of what is beyond the last row, the last one."""
    return jax.tree.map(lambda leaf: leaf.at[places].get(mode="clip"), series)


def put(engine: Engine, series: Any, places: Int[Array, " some"], rows: Any) -> Any:
    """Replace some rows; what is beyond the last row is dropped."""
    return jax.tree.map(lambda leaf, part: leaf.at[places].set(part, mode="drop"), series, rows)


def renew(engine: Engine, rows: Any, count: Int[Array, ""]) -> tuple[Any, Int[Array, " row"]]:
    """Renew the first rows, one after the other; return the flags that this raised too."""

    def turn(place, carry):
        rows, flags = carry
        own, raised = engine.renew(jax.tree.map(lambda leaf: leaf[place], rows))
        return jax.tree.map(lambda leaf, part: leaf.at[place].set(part), (rows, flags), (own, raised))

    return jax.lax.fori_loop(0, count, turn, (rows, jnp.zeros(BLOCK, jnp.int32)))


def moments(engine: Engine, series: Any) -> Moments:
    """Return mean and variance of each row's posterior."""
    return in_blocks(engine.read_moments, series)


def in_blocks(function: Callable, *rows: Any) -> Any:
    """Apply a function to each row."""
    return jax.lax.map(lambda row: function(*row), rows, batch_size=BLOCK)


def bucket(size: int) -> int:
    """Return the size that so many rows are filled up to."""
    filled = BLOCK
    while filled < size:
        filled *= BUCKET_FACTOR
    return filled
