"""Rows of a table of states: the bytes of a state, the group of a series, and how changed rows replace old ones."""

from __future__ import annotations

import json
import zlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.compute
from jaxtyping import Array, Int, UInt32

from paramfilter.filters import Filter

pc: Any = pyarrow.compute
"""Its functions are made when it is imported, so type checkers do not find them."""


def group_of(series: Any, groups: int) -> Any:
    """Return the group of a series: the CRC-32 of its name, modulo the number of groups.

    Args:
        series: A name, or a column of names.
        groups: The number of groups.

    Returns:
        A number from 0; for a column, an array of them.

    >>> group_of("sensor-7", 128), group_of(["sensor-7", "oslo"], 128).tolist()
    (102, [102, 34])
    """
    if isinstance(series, str):
        return zlib.crc32(series.encode()) % groups
    names = series.to_pylist() if isinstance(series, pa.Array | pa.ChunkedArray) else series
    return np.fromiter((zlib.crc32(name.encode()) % groups for name in names), np.int32, len(names))


def merged(states: pa.Table, changed: pa.Table) -> pa.Table:
    """Return a table of states in which changed rows replace those of the same series."""
    kept = states.filter(pc.invert(pc.is_in(states["series"], value_set=changed["series"].combine_chunks())))
    return pa.concat_tables([kept, changed])


class Layout:
    """How the arrays of one state stand in a row of 32-bit words.

    Attributes:
        shapes: The state, of `jax.ShapeDtypeStruct`.
        text: Name, type and shape of each array, as JSON.
        num_bytes: Bytes of a row.
    """

    def __init__(self, filter: Filter):
        self.shapes = jax.eval_shape(filter.init, jax.random.key(0), filter.model.example_inputs)
        paths = jax.tree_util.tree_flatten_with_path(self.shapes)[0]
        self.text = json.dumps([[jax.tree_util.keystr(path), str(leaf.dtype), leaf.shape] for path, leaf in paths])
        self.num_bytes = 4 * jax.eval_shape(self.pack, self.shapes).size

    def pack(self, state: Any) -> UInt32[Array, " word"]:
        """Return a state as words; inside a trace."""
        return jnp.concatenate([_words(leaf) for leaf in jax.tree.leaves(state)])

    def unpack(self, words: UInt32[Array, " word"]) -> Any:
        """Return the state of these words; inside a trace."""
        leaves, structure = jax.tree.flatten(self.shapes)
        ends = np.cumsum([jax.eval_shape(_words, leaf).size for leaf in leaves])
        parts = zip(jnp.split(words, ends[:-1]), leaves, strict=True)
        return jax.tree.unflatten(structure, [_leaf(part, like) for part, like in parts])


def _words(leaf: Any) -> UInt32[Array, " word"]:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    narrow = leaf.dtype.itemsize < np.dtype(np.uint32).itemsize
    return jnp.ravel(leaf.astype(jnp.uint32) if narrow else jax.lax.bitcast_convert_type(leaf, jnp.uint32))


def _leaf(words: UInt32[Array, " word"], like: Any) -> Any:
    if jnp.issubdtype(like.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(words.reshape(*like.shape, -1))
    if like.dtype.itemsize < np.dtype(np.uint32).itemsize:
        return words.reshape(like.shape).astype(like.dtype)
    parts = words.reshape(like.shape if words.size == like.size else (*like.shape, -1))
    return jax.lax.bitcast_convert_type(parts, like.dtype)


def gathered(column: pa.ChunkedArray, rows: Int[np.ndarray, " row"], size: int) -> UInt32[np.ndarray, "size word"]:
    """Return some rows of a column of states, and zeros where a row is negative and after the last."""
    found, start = np.zeros((size, column.type.byte_width // 4), np.uint32), 0
    for chunk in column.chunks:
        here = np.flatnonzero((rows >= start) & (rows < start + len(chunk)))
        if len(here):
            words = np.frombuffer(chunk.buffers()[1], np.uint32).reshape(-1, found.shape[1])
            found[here] = words[rows[here] - start + chunk.offset]
        start += len(chunk)
    return found


def column_of(rows: UInt32[np.ndarray, "row word"]) -> pa.Array:
    """Return states as a column, without a copy."""
    kind = pa.binary(4 * rows.shape[1])
    return pa.FixedSizeBinaryArray.from_buffers(kind, len(rows), [None, pa.py_buffer(np.ascontiguousarray(rows))])
