"""What few of many have to do, and what costs much: only those that have to do it pay.

Under `vmap` all rows do the same, so a `lax.cond` takes both branches for all. Here the rows that have something to do
take the branch one after the other. So a window of a belief moves without the others, and a fleet mixes beliefs at the
price of the series whose time it is.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool, PyTree


def sparse_cond(
    is_due: Bool[Array, ""], branch: Callable[[PyTree], PyTree], operands: PyTree, otherwise: PyTree
) -> PyTree:
    """Return `branch(operands)` if `is_due`, else `otherwise`, which has the same structure.

    Args:
        is_due: Whether to take the branch.
        branch: It must not refer to traced values other than its operands.
        operands: What the branch needs.
        otherwise: The answer if it is not due.

    >>> double = lambda is_due, x: sparse_cond(is_due, lambda x: 2 * x, x, x)
    >>> jax.vmap(double)(jnp.array([True, False, True]), jnp.arange(3)).tolist()
    [0, 1, 4]
    """

    @custom_vmap
    def choose(is_due, operands, otherwise):
        return jax.lax.cond(is_due, branch, lambda _: otherwise, operands)

    @choose.def_vmap
    def choose_in_batch(axis_size, in_batched, is_due, operands, otherwise):
        """Take the branch for those that are due, one after the other."""
        spread = lambda is_batched, leaf: leaf if is_batched else jnp.broadcast_to(leaf, (axis_size, *leaf.shape))
        are_due, answers = spread(in_batched[0], is_due), jax.tree.map(spread, in_batched[2], otherwise)
        leaves, structure = jax.tree.flatten(operands)
        is_own = jax.tree.leaves(in_batched[1])  # the other operands are the same for all, and stay as they are

        def take_one(carry):
            are_due, answers = carry
            place = jnp.argmax(are_due)
            own = [leaf[place] if is_mine else leaf for leaf, is_mine in zip(leaves, is_own, strict=True)]
            put = lambda rows, one: rows.at[place].set(one)
            return are_due.at[place].set(False), jax.tree.map(put, answers, branch(structure.unflatten(own)))

        answers = jax.lax.while_loop(lambda carry: jnp.any(carry[0]), take_one, (are_due, answers))[1]
        return answers, jax.tree.map(lambda _: True, answers)

    return choose(is_due, operands, otherwise)
