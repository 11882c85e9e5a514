"""From what a user calls data to arrays of floats, or to words that say what to do."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from paramfilter.arguments import kind_of
from paramfilter.errors import DataError
from paramfilter.tracing import is_traced


def as_floats(y: Any) -> Float[Array | np.ndarray, "..."]:
    """Turn data into floats: masked values and None become NaN; texts, dates and tables are refused.

    What has a value becomes a NumPy array, so that nothing is compiled to cut and check it.
    """
    array = y if isinstance(y, jax.Array | np.ma.MaskedArray) else _one_array(y)
    if isinstance(array, np.ma.MaskedArray):
        array = np.ma.filled(array.astype(float), np.nan)
    is_real = any(jnp.issubdtype(array.dtype, kind) for kind in (jnp.floating, jnp.integer, jnp.bool_))
    if not is_real or array.dtype.kind == "m":  # numpy counts spans of time among the integers
        raise DataError(
            f"y must be real numbers, got {kind_of(y)} of dtype {array.dtype}. Take the columns that hold numbers, as "
            "np.asarray(y, float); dates belong in inputs, as numbers."
        )
    return jnp.asarray(array, float) if is_traced(array) else np.asarray(array, jnp.result_type(float))


def _one_array(y: Any) -> np.ndarray:
    try:
        array = np.asarray(y)
        return array.astype(float) if array.dtype == object else array
    except (TypeError, ValueError) as error:
        reason = str(error).partition(". ")[0]  # numpy says it in one sentence, and goes on for two more
        cure = (
            'Read a table with pf.observations_from_table(table, y="...", time="...").'
            if hasattr(y, "columns")
            else "Give numbers in rows of one length, with NaN where one is missing."
        )
        raise DataError(
            f"y must be numbers in one array, and {kind_of(y)} cannot become one ({reason}). {cure}"
        ) from error


def shape_advice(got: tuple[int, ...], wanted: tuple[int, ...], num_leading: int) -> str:
    """Say how data of one shape may become what is wanted, after so many leading axes."""
    fits = lambda shape: len(shape) == num_leading + len(wanted) and shape[num_leading:] == wanted
    if fits(got[::-1]):
        return "Transpose it: y.T."
    if got and got[-1] == 1 and fits(got[:-1]):
        return "Take its only column: y[..., 0]."
    if num_leading == 0 and got[1:] == wanted:
        return "step takes one observation; run(filter, state, ys) takes many."
    if num_leading == 1 and got == wanted:
        return "This is one observation; give it an axis in front, y[None], or use filter.step(state, y)."
    return "Add or drop axes; the components of one observation come last."
