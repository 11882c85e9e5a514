"""Rows of a fleet as arrays of NumPy: without spare ones, and from all processes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.multihost_utils import process_allgather
from jaxtyping import Array, Int

from paramfilter.errors import DataError


def first_rows(num: int, tree: Any) -> Any:
    """Remove the spare rows."""
    # By numpy where it can be, since JAX would compile a program for each number.
    return jax.tree.map(lambda leaf: (np.asarray(leaf) if leaf.is_fully_addressable else leaf)[:num], tree)


def first_of_all(leaf: Any, num: int) -> Any:
    """Return the first rows, also those that other processes hold."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(first_of_all(jax.random.key_data(leaf), num), impl=jax.random.key_impl(leaf))
    return fetch(leaf)[:num]


def fetch(leaf: Array) -> np.ndarray:
    """Return an array with all rows, also those that other processes hold."""
    return np.asarray(leaf if leaf.is_fully_addressable else process_allgather(leaf, tiled=True))


def checked_lengths(lengths: Any, num_series: int, num_times: int) -> Int[np.ndarray, " series"]:
    """Return the number of observations of each series; None stands for all of them."""
    if lengths is None:
        return np.full(num_series, num_times, np.int32)
    lengths = np.asarray(lengths, np.int32)
    if lengths.shape != (num_series,) or np.any(lengths < 0) or np.any(lengths > num_times):
        raise DataError(
            f"lengths must hold a number between 0 and {num_times} for each of {num_series} series; got "
            f"{lengths.tolist()[:5]}. Pass the number of observations of each series, or None for all."
        )
    return lengths


def count_before(values: np.ndarray) -> np.ndarray:
    """Return for each place how many of the places before it hold the same value.

    >>> count_before(np.array([3, 1, 3, 3, 1])).tolist()
    [0, 0, 1, 2, 1]
    """
    order = np.argsort(values, kind="stable")
    starts = np.searchsorted(values[order], values[order])
    counts = np.empty_like(order)
    counts[order] = np.arange(len(values)) - starts
    return counts
