"""What is done to the rows of a fleet: a block of them side by side, block after block, each row by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Shaped

from paramfilter.filters import Engine, Moments, StepInfo
from paramfilter.fleet.scores import FleetScores
from paramfilter.types import Inputs, Observation

BLOCK = 16
"""Series that are stepped side by side, block after block: what they need in between fits into a processor's cache, and
there is no row left over that vector instructions would treat in another way."""

WINDOW = 32
"""Times of each row that one call can take: a step fills one of them, so a wider one costs memory and saves calls."""

BUCKET_FACTOR = 4
"""A sparse batch is filled up to a block times the next power of this: few sizes, so few compiles."""


def begin(engine: Engine, keys: Shaped[Array, " row"], inputs: Inputs, prior: Any) -> Any:
    """Start a filter for each key, from the model's prior or from another."""
    return in_blocks(engine.init, keys, inputs, prior)


def step(
    engine: Engine, series: Any, ys: Observation, inputs: Inputs, has_one: Bool[Array, " row"]
) -> tuple[Any, StepInfo]:
    """Take in one observation of each row that has one; the info of another row is NaN and 0."""

    def take_in(state, y, inputs, has_one):
        state, info = engine.step_if(state, y, inputs, has_one)
        return state, jax.tree.map(lambda leaf: jnp.where(has_one, leaf, _nothing(leaf)), info)

    return in_blocks(take_in, series, ys, inputs, has_one)


def run(engine: Engine, series: Any, ys: Observation, inputs: Inputs, lengths: Int[Array, " row"]) -> Any:
    """Take in the first observations of each row, as many as its length."""
    # What a step says is left out here, and with it most of the cost of a step: its forecasts.
    return in_blocks(engine.take_in, series, ys, inputs, lengths)


def run_scored(
    engine: Engine, series: Any, ys: Observation, inputs: Inputs, lengths: Int[Array, " row"]
) -> tuple[Any, FleetScores]:
    """Do as `run` does, and return the scores of all steps too, NaN beyond."""
    longest = jnp.max(lengths)

    def go_through(state, ys, inputs, length):
        def take_in(now, carry):
            state, scores = carry
            y, inputs_now = jax.tree.map(lambda leaf: leaf[now], (ys, inputs))
            state, info = engine.step_if(state, y, inputs_now, now < length)
            put = lambda rows, new: rows.at[now].set(jnp.where(now < length, new, jnp.nan))
            return state, jax.tree.map(put, scores, FleetScores.of(info))

        first = jax.tree.map(lambda leaf: leaf[0], (ys, inputs))
        shapes = FleetScores.of(jax.eval_shape(engine.step, state, *first)[1])
        blank = jax.tree.map(lambda leaf: jnp.full((WINDOW, *leaf.shape), jnp.nan, leaf.dtype), shapes)
        return jax.lax.fori_loop(0, longest, take_in, (state, blank))

    return in_blocks(go_through, series, ys, inputs, lengths)


def _nothing(leaf: Array) -> Array:
    return jnp.full_like(leaf, jnp.nan if jnp.issubdtype(leaf.dtype, jnp.floating) else 0)


def update(
    engine: Engine, series: Any, rows: Int[Array, " some"], ys: Observation, inputs: Inputs
) -> tuple[Any, StepInfo]:
    """Take in one observation of some rows; what is beyond the last row is dropped."""
    some = jax.tree.map(lambda leaf: leaf.at[rows].get(mode="clip"), series)
    new, info = in_blocks(engine.step, some, ys, inputs)
    return jax.tree.map(lambda leaf, part: leaf.at[rows].set(part, mode="drop"), series, new), info


def run_packed(
    engine: Engine,
    rows: Any,
    ys: Observation,
    inputs: Inputs,
    lengths: Int[Array, " row"],
    num_blocks: Int[Array, ""],
    layout: Any,
    describe: Callable[..., Any],
) -> tuple[Any, Any]:
    """Do as `run` does with the first blocks of rows, whose states are packed, and describe each step.

    Args:
        engine: Of the filter of each row.
        rows: The states of all rows, as `layout.pack` makes them.
        ys: Observations with leading axes of rows and times.
        inputs: The same of inputs, or None.
        lengths: How many steps each row takes.
        num_blocks: How many blocks have steps to take.
        layout: Has `pack` and `unpack` of one state.
        describe: Called as `describe(before, y, inputs, after, info)` for each step.

    Returns:
        The new rows, and what `describe` returned, with leading axes of rows and times; it means nothing beyond the
        length of a row.
    """

    def take_in(state, y, inputs, has_one):
        new, info = engine.step_if(state, y, inputs, has_one)
        return new, describe(state, y, inputs, new, info)

    def one_block(number, carry):
        cut = lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, number * BLOCK, BLOCK)
        paste = lambda leaf, part: jax.lax.dynamic_update_slice_in_dim(leaf, part, number * BLOCK, axis=0)
        own, given, length, described = jax.tree.map(cut, (carry[0], (ys, inputs), lengths, carry[1]))

        def turn(now, carry):
            y, inputs = jax.tree.map(lambda leaf: leaf[:, now], given)
            own, found = jax.vmap(take_in)(carry[0], y, inputs, now < length)
            return own, jax.tree.map(lambda leaf, part: leaf.at[:, now].set(part), carry[1], found)

        series, described = jax.lax.fori_loop(0, jnp.max(length), turn, (jax.vmap(layout.unpack)(own), described))
        return jax.tree.map(paste, carry, (jax.vmap(layout.pack)(series), described))

    some = jax.eval_shape(jax.vmap(layout.unpack), rows)
    first = jax.tree.map(lambda leaf: leaf[:, 0], (ys, inputs))
    shapes = jax.eval_shape(jax.vmap(take_in), some, *first, lengths > 0)[1]
    num_times = jax.tree.leaves(ys)[0].shape[1]
    nothing = jax.tree.map(lambda leaf: jnp.zeros((len(lengths), num_times, *leaf.shape[1:]), leaf.dtype), shapes)
    return jax.lax.fori_loop(0, num_blocks, one_block, (rows, nothing))


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
