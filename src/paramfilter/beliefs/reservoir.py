"""A sample, of fixed size, of the data that the particles have seen: each step is kept with the same probability."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from paramfilter.model import Transition
from paramfilter.types import KeyArray

KEPT_PER_STEP = 1


def reservoir_sample(
    key: KeyArray, reservoir: Transition, data: Transition, log_weights: Float[Array, " particle"], time: Int[Array, ""]
) -> Transition:
    """Put a few particles' transitions, chosen by weight, into random slots (reservoir sampling).

    Args:
        key: A random key.
        reservoir: Data with a leading axis of slots.
        data: This step's transitions with a leading axis of particles; y and inputs are the same for all.
        log_weights: Weights of the particles.
        time: Steps before this one.
    """
    size = len(jax.tree.leaves(reservoir.x)[0])
    key_choose, key_slot = jax.random.split(key)
    chosen = jax.random.categorical(key_choose, log_weights, shape=(KEPT_PER_STEP,))
    first = time * KEPT_PER_STEP
    order = first + jnp.arange(KEPT_PER_STEP)
    random_slots = jax.random.randint(key_slot, (KEPT_PER_STEP,), 0, jnp.maximum(first + KEPT_PER_STEP, 1))
    # The first slots are filled one after another; a slot beyond the end drops the datum.
    slots = jnp.where(order < size, order, random_slots)

    def put(rows, values):
        return rows.at[slots].set(values, mode="drop")

    moved = jax.tree.map(
        lambda rows, leaf: put(rows, leaf[chosen]), (reservoir.x_prev, reservoir.x), (data.x_prev, data.x)
    )
    given = jax.tree.map(
        lambda rows, leaf: put(rows, jnp.broadcast_to(leaf, (KEPT_PER_STEP, *leaf.shape)).astype(rows.dtype)),
        (reservoir.y, reservoir.inputs),
        (data.y, data.inputs),
    )
    return Transition(*moved, *given)
