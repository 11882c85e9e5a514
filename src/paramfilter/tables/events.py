"""The columns of a batch of events, checked before they are used.

A row that is no event, such as one without a name or with an infinite `y`, is put aside with its reason; a table that
lacks a column or has one of another type is refused as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
from jax.flatten_util import ravel_pytree
from jaxtyping import Float

from paramfilter.arguments import did_you_mean
from paramfilter.errors import DataError
from paramfilter.tables.ordering import LARGEST_SEQUENCE
from paramfilter.tables.rows import pc

LONGEST_NAME = 128
LATEST = 1e11
"""Seconds that `at` may be, some 3,000 years: beyond are milliseconds that were taken for seconds."""


class Flat(NamedTuple):
    """A tree of arrays as one vector, which a column holds as a number or as a list of numbers.

    Attributes:
        size: How many numbers there are.
        type: Of the column.
        tree: Makes the tree of a vector; inside a trace.
    """

    size: int
    type: pa.DataType
    tree: Callable[[Any], Any]

    @classmethod
    def of(cls, example: Any) -> Flat:
        """Lay out a tree like this one."""
        flat, unravel = ravel_pytree(example)
        is_number = [jnp.shape(leaf) for leaf in jax.tree.leaves(example)] == [()]
        kind = pa.float64() if is_number else pa.list_(pa.float64(), flat.size)
        return cls(flat.size, kind, lambda vector: unravel(vector.astype(flat.dtype)))

    def numbers(self, column: pa.ChunkedArray) -> Float[np.ndarray, "row size"]:
        """Return a column as rows of numbers, NaN where it is null."""
        whole: Any = column.combine_chunks()
        if not pa.types.is_fixed_size_list(whole.type):
            return whole.to_numpy(zero_copy_only=False).reshape(-1, 1)
        parts = whole.values.slice(whole.offset * self.size, len(whole) * self.size)
        rows = parts.to_numpy(zero_copy_only=False).reshape(-1, self.size)
        return np.where(whole.is_valid().to_numpy(zero_copy_only=False)[:, None], rows, np.nan)


class Events(NamedTuple):
    """A batch of events as arrays, in the order of arrival.

    Attributes:
        table: The rows.
        names: The series of the batch.
        code: The series of each event, as an index of `names`.
        seq: The number of each event in its series and epoch.
        epoch: The producer's epoch.
        y: Observations as vectors, NaN where missing.
        inputs: Inputs as vectors, which are empty if the model has none.
        problem: Why a row is no event; empty if it is one.
    """

    table: pa.Table
    names: pa.Array
    code: Any
    seq: Any
    epoch: Any
    y: Any
    inputs: Any
    problem: Any

    @classmethod
    def read(cls, table: pa.Table, schema: pa.Schema, y: Flat, inputs: Flat) -> Events:
        """Read a table of events."""
        is_placed = "place" in table.column_names
        table = _complete(table, schema)
        table = table.sort_by("place") if is_placed else table
        names = pc.unique(table["series"])
        code = pc.index_in(table["series"], value_set=names).to_numpy().astype(np.int64)
        seq, epoch, at = (table[name].combine_chunks().fill_null(0).to_numpy() for name in ("seq", "epoch", "at"))
        ys = y.numbers(table["y"])
        told = inputs.numbers(table["inputs"]) if "inputs" in schema.names else np.zeros((len(seq), 0))
        length, largest = pc.utf8_length(names).fill_null(0).to_numpy(), np.finfo(jnp.result_type(float)).max
        wrong = {
            f"series must be a name of 1 to {LONGEST_NAME} characters": ((length < 1) | (length > LONGEST_NAME))[code],
            f"seq must be a whole number from 1 to {LARGEST_SEQUENCE}": (seq < 1) | (seq > LARGEST_SEQUENCE),
            "epoch must be 0 or more": epoch < 0,
            f"at must be seconds from 0 to {LATEST:g}": ~((at >= 0) & (at <= LATEST)),
            f"y holds a number beyond {largest:.1e}; null is for a missing one": np.any(np.abs(ys) > largest, axis=1),
            "inputs must be finite numbers, and cannot be missing": ~np.all(np.abs(told) <= largest, axis=1),
        }
        problem = np.select([*wrong.values()], [np.array(text, object) for text in wrong], "")
        return cls(table, names, code, seq, epoch, ys, told, problem)


def _complete(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the columns of the schema, or refuse a table; epoch, at and place may be left out."""
    absent = [name for name in schema.names if name not in table.column_names]
    strange = [name for name in table.column_names if name not in schema.names]
    for name in {"epoch", "at", "place"} & {*absent}:
        absent.remove(name)
        table = table.append_column(name, pa.array(np.arange(len(table)) * (name == "place")))
    if absent or strange:
        hint = did_you_mean(strange[0], schema.names) if strange else ""
        raise DataError(
            f"a table of events has the columns {schema.names}; this one lacks {absent} and also has {strange}{hint}. "
            "Rename the columns, or pick them with events.select([...])."
        )
    try:
        return table.select(schema.names).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        types = {field.name: str(field.type) for field in schema}
        raise DataError(f"the columns of events must have the types {types}: {error}") from error
