"""Small matrices, alone or many of them side by side: one for each node, say, with the nodes on the last axis.

A product is written out as a sum of products, which the compiler makes into one loop along the nodes. A reduction over
the inner axis, which says the same, takes 70 times as long (two by two, 1024 nodes, on a CPU). Under `vmap` the same
holds for one matrix a particle, where a library call costs far more than its arithmetic.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable

import jax.numpy as jnp
from jaxtyping import Array, Float

Matrix = Float[Array, "_ _ ..."]
"""Rows, columns, and perhaps other axes."""
Vector = Float[Array, "_ ..."]
"""Rows, and perhaps other axes."""


def product(a: Matrix, b: Matrix) -> Matrix:
    """Return a b."""
    return _sum(a[:, k, None] * b[None, k] for k in range(len(b)))


def product_transposed(a: Matrix, b: Matrix) -> Matrix:
    """Return a b'."""
    return _sum(a[:, None, k] * b[None, :, k] for k in range(a.shape[1]))


def apply(a: Matrix, v: Vector) -> Vector:
    """Return a v."""
    return _sum(a[:, k] * v[k] for k in range(len(v)))


def dot(u: Vector, v: Vector) -> Float[Array, "..."]:
    """Return u'v."""
    return _sum(u[k] * v[k] for k in range(len(v)))


def _sum(terms: Iterable[Array]) -> Array:
    return functools.reduce(operator.add, terms)


def cholesky(a: Matrix) -> Matrix:
    """Return the lower factor; a variance that rounding has made negative counts as zero."""
    size = a.shape[0]
    zero = jnp.zeros_like(a[0, 0])
    rows: list[list[Array]] = []
    for i in range(size):
        row: list[Array] = []
        for j in range(i):
            left = a[i, j] - sum((p * q for p, q in zip(row, rows[j][:j], strict=True)), start=zero)
            pivot = rows[j][j]
            row.append(jnp.where(pivot > 0, left / jnp.where(pivot > 0, pivot, 1.0), 0.0))
        rows.append([*row, jnp.sqrt(jnp.maximum(a[i, i] - sum((p * p for p in row), start=zero), 0.0))])
    return jnp.stack([jnp.stack([*row, *[zero] * (size - len(row))]) for row in rows])


def solve_lower(lower: Matrix, right: Vector) -> Vector:
    """Return the solution of `lower x = right`; after its first axis, right may have some that `lower` lacks."""
    found: list[Array] = []
    for i in range(lower.shape[0]):
        left = right[i]
        for j in range(i):
            left = left - lower[i, j] * found[j]
        found.append(left / lower[i, i])
    return jnp.stack(found)


def solve_upper(lower: Matrix, right: Vector) -> Vector:
    """Return the solution of `lower' x = right`."""
    size = lower.shape[0]
    found: dict[int, Array] = {}
    for i in reversed(range(size)):
        left = right[i]
        for j in range(i + 1, size):
            left = left - lower[j, i] * found[j]
        found[i] = left / lower[i, i]
    return jnp.stack([found[i] for i in range(size)])
