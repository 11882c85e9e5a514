"""A choice that is rarely taken, and then costs much: `lax.cond` that stays cheap in a batch.

Under `vmap` a `lax.cond` computes both branches for all. Here the few that are due are gathered, a batch at a time, and
only they pay. So a fleet of filters mixes beliefs at the price of those series whose time it is.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool, PyTree

BATCH_SHARE = 32
"""Of those in a `vmap`, 1/32 are done at a time."""


def rarely(is_due: Bool[Array, ""], branch: Callable[[PyTree], PyTree], operands: PyTree, otherwise: PyTree) -> PyTree:
    """Return `branch(operands)` if `is_due`, else `otherwise`, which has the same structure.

    Args:
        is_due: Whether to take the branch.
        branch: It must not refer to traced values other than its operands.
        operands: What the branch needs.
        otherwise: The answer if it is not due.

    >>> import jax, jax.numpy as jnp
    >>> double = lambda is_due, x: rarely(is_due, lambda x: 2 * x, x, x)
    >>> jax.vmap(double)(jnp.array([True, False, True]), jnp.arange(3)).tolist()
    [0, 1, 4]
    """

    @custom_vmap
    def choose(is_due, operands, otherwise):
        return jax.lax.cond(is_due, branch, lambda _: otherwise, operands)

    @choose.def_vmap
    def choose_in_batch(axis_size, in_batched, is_due, operands, otherwise):
        """Take the branch for those that are due, a few at a time."""
        is_mine, axes = in_batched[0], jax.tree.map(lambda is_batched: 0 if is_batched else None, in_batched[1])
        spread = lambda is_batched, leaf: leaf if is_batched else jnp.broadcast_to(leaf, (axis_size, *leaf.shape))
        answers = jax.tree.map(spread, in_batched[2], otherwise)
        size = max(axis_size // BATCH_SHARE, 1)

        def answer_some(carry):
            answers, waiting = carry
            rows = jnp.flatnonzero(waiting, size=size, fill_value=axis_size)
            some = jax.tree.map(
                lambda axis, leaf: leaf if axis is None else leaf[jnp.minimum(rows, axis_size - 1)],
                axes,
                operands,
                is_leaf=lambda axis: axis is None,
            )
            new = jax.vmap(branch, in_axes=(axes,), axis_size=size)(some)
            put = lambda leaf, part: leaf.at[rows].set(part, mode="drop")
            return jax.tree.map(put, answers, new), waiting.at[rows].set(False, mode="drop")

        waiting = spread(is_mine, is_due)
        answers, _ = jax.lax.while_loop(lambda carry: jnp.any(carry[1]), answer_some, (answers, waiting))
        return answers, jax.tree.map(lambda _: True, answers)

    return choose(is_due, operands, otherwise)
