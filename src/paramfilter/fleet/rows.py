"""Rows of a fleet as arrays of NumPy."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jaxtyping import Int

from paramfilter.errors import DataError


def first_rows(num: int, tree: Any) -> Any:
    """Remove the spare rows. By numpy, since JAX would compile a program for each number."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:num], tree)


def choose(mask: np.ndarray, values: Any, others: Any) -> np.ndarray:
    """Return values where a mask is true, and others elsewhere; the mask has the leading axes of the values."""
    return np.where(mask.reshape(*mask.shape, *[1] * (np.ndim(values) - mask.ndim)), values, others)


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
