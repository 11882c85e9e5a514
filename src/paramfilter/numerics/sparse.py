"""What few of many have to do, and what costs much: only those that have to do it pay.

Under `vmap` all rows do the same, so a `lax.cond` takes both branches for all, and a `lax.while_loop` goes on until the
last row is done. Here the rows that have something to do are gathered, a few at a time, until none is left. So a window
of a belief moves without the others, and a fleet mixes beliefs at the price of the series whose time it is.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool, PyTree

BATCH_SHARE = 32
"""Of those in a `vmap`, 1/32 take a rare branch at a time."""


def sparse_while(
    are_waiting: Callable[[PyTree], Bool[Array, " row"]],
    advance: Callable[[PyTree, PyTree], PyTree],
    rows: PyTree,
    fixed: PyTree,
    share: int,
) -> PyTree:
    """Advance the rows that wait until none does, and return all.

    Args:
        are_waiting: From all rows to those that still have something to do.
        advance: From some rows, and what is fixed about them, to what these rows are next.
        rows: Arrays with a leading axis of rows.
        fixed: Arrays with the same leading axis that do not change.
        share: One row in so many is advanced at a time.

    >>> halve_odd_ones = lambda x, _: x // 2
    >>> sparse_while(lambda x: x % 2 == 1, halve_odd_ones, jnp.arange(8), None, share=4).tolist()
    [0, 0, 2, 0, 4, 2, 6, 0]
    """
    num_rows = len(jax.tree.leaves(rows)[0])

    def advance_some(rows):
        places = jnp.flatnonzero(are_waiting(rows), size=max(num_rows // share, 1), fill_value=num_rows)
        some = jax.tree.map(lambda leaf: leaf.at[places].get(mode="clip"), (rows, fixed))
        return jax.tree.map(lambda leaf, part: leaf.at[places].set(part, mode="drop"), rows, advance(*some))

    return jax.lax.while_loop(lambda rows: jnp.any(are_waiting(rows)), advance_some, rows)


def sparse_cond(
    is_due: Bool[Array, ""],
    branch: Callable[[PyTree], PyTree],
    operands: PyTree,
    otherwise: PyTree,
    share: int = BATCH_SHARE,
) -> PyTree:
    """Return `branch(operands)` if `is_due`, else `otherwise`, which has the same structure.

    Args:
        is_due: Whether to take the branch.
        branch: It must not refer to traced values other than its operands.
        operands: What the branch needs.
        otherwise: The answer if it is not due.
        share: In a `vmap`, one in so many takes the branch at a time.

    >>> double = lambda is_due, x: sparse_cond(is_due, lambda x: 2 * x, x, x)
    >>> jax.vmap(double)(jnp.array([True, False, True]), jnp.arange(3)).tolist()
    [0, 1, 4]
    """

    @custom_vmap
    def choose(is_due, operands, otherwise):
        return jax.lax.cond(is_due, branch, lambda _: otherwise, operands)

    @choose.def_vmap
    def choose_in_batch(axis_size, in_batched, is_due, operands, otherwise):
        """Take the branch for those that are due, a few at a time."""
        spread = lambda is_batched, leaf: leaf if is_batched else jnp.broadcast_to(leaf, (axis_size, *leaf.shape))
        are_due, answers = spread(in_batched[0], is_due), jax.tree.map(spread, in_batched[2], otherwise)
        leaves, structure = jax.tree.flatten(operands)
        is_own = jax.tree.leaves(in_batched[1])  # the other operands are the same for all, and stay as they are
        own = [leaf for leaf, mine in zip(leaves, is_own, strict=True) if mine]

        def answer(row, own):
            mine = iter(own)
            whole = [next(mine) if is_mine else leaf for leaf, is_mine in zip(leaves, is_own, strict=True)]
            return jnp.bool_(False), branch(structure.unflatten(whole))

        start, is_single = (are_due, answers), axis_size < 2 * share
        advance = _one_alone(answer) if is_single else jax.vmap(answer)
        _, answers = sparse_while(lambda rows: rows[0], advance, start, own, share)
        return answers, jax.tree.map(lambda _: True, answers)

    return choose(is_due, operands, otherwise)


def _one_alone(function: Callable) -> Callable:
    """Return what does as `jax.vmap(function)` does for a batch of one: not batched, a rare branch in it stays one."""

    def call(*batch):
        alone = jax.tree.map(lambda leaf: leaf[0], batch)
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], function(*alone))

    return call
