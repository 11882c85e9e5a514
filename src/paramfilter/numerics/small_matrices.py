"""Cholesky factors and triangular solves of very small matrices, written out.

A library call for each 1 x 1 or 2 x 2 matrix of a thousand particles costs far more than its arithmetic. Up to
`LARGEST` rows the loops are unrolled into plain products, which the compiler fuses over all particles.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

LARGEST = 4


def cholesky(matrix: Float[Array, "row row"]) -> Float[Array, "row row"]:
    """Return the lower Cholesky factor, NaN if there is none."""
    size = matrix.shape[0]
    if size > LARGEST:
        return jnp.linalg.cholesky(matrix)
    zero = jnp.zeros((), matrix.dtype)
    rows: list[list[Array]] = []
    for i in range(size):
        row: list[Array] = []
        for j in range(i):
            row.append((matrix[i, j] - _dot(row, rows[j][:j])) / rows[j][j])
        row.append(jnp.sqrt(matrix[i, i] - _dot(row, row)))
        rows.append(row)
    return jnp.stack([jnp.stack([*row, *[zero] * (size - len(row))]) for row in rows])


def solve_lower(lower: Float[Array, "row row"], right: Float[Array, "row ..."]) -> Float[Array, "row ..."]:
    """Return the solution of `lower @ x = right`."""
    size = lower.shape[0]
    if size > LARGEST:
        return solve_triangular(lower, right, lower=True)
    found: list[Array] = []
    for i in range(size):
        found.append((right[i] - _dot([lower[i, j] for j in range(i)], found)) / lower[i, i])
    return jnp.stack(found)


def solve_upper(upper: Float[Array, "row row"], right: Float[Array, "row ..."]) -> Float[Array, "row ..."]:
    """Return the solution of `upper @ x = right`."""
    return solve_lower(upper[::-1, ::-1], right[::-1])[::-1]


def inverse_of_lower(lower: Float[Array, "row row"]) -> Float[Array, "row row"]:
    """Return the inverse of a lower triangular matrix, row by row."""
    size = lower.shape[0]
    inverse = jnp.zeros_like(lower)
    for row in range(size):
        unit = jnp.zeros(size, lower.dtype).at[row].set(1.0)
        inverse = inverse.at[row].set((unit - lower[row] @ inverse) / lower[row, row])
    return inverse


def _dot(first: list, second: list):
    return sum((a * b for a, b in zip(first, second, strict=False)), start=0.0)
