"""The states of all series of a worker, in memory or on a device, and what can be done with them.

A worker knows states only as rows of bytes that can be started, stepped, read and put back. `Residents` is that
contract; `FleetResidents` keeps it for a particle filter, with the rows of a fleet: a series' random numbers come
from the seed and its name, those of a step from the series' key and its clock, which is its sequence number. So a
step that is taken again gives the same bits.

There is one compiled step for batches of any size, and room for a number of series that is said in advance, so
nothing is compiled once a worker is ready.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Collection, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, UInt8

from paramfilter.errors import DataError, StoreError
from paramfilter.filters import Filter
from paramfilter.fleet import blocks
from paramfilter.fleet.blocks import BLOCK
from paramfilter.fleet.state import keys_for
from paramfilter_streams.events import EventParser
from paramfilter_streams.figures import columns_of, figures_of

LARGEST_BATCH = 4096
"""Rows of one call of the compiled step."""


ROWS_AT_A_TIME = 4096
"""Rows that are taken from a store or a file at once: all would need as much memory again as the states."""


class Residents(Protocol):
    """States of many series, by name.

    Attributes:
        identity: What the rows belong to, in words that a store keeps.
        columns: The names of the figures that a step returns.
        parser: Reads the events of this model.
        room: How many series there may be.
    """

    identity: dict[str, str]
    columns: tuple[str, ...]
    parser: EventParser
    room: int

    @property
    def names(self) -> Collection[str]:
        """The series that are here."""
        ...

    def start(self, names: Sequence[str]) -> None:
        """Start new series, or some that are here once more."""
        ...

    def drop(self, names: Sequence[str]) -> None:
        """Let go of some series, and make room for others."""
        ...

    def step(
        self, names: Sequence[str], ys: Sequence[list[float]], inputs: Sequence[list[float] | None]
    ) -> Float[np.ndarray, "some column"]:
        """Take in one observation of some series, each at most once, and return their new figures."""
        ...

    def rows(self, names: Sequence[str]) -> UInt8[np.ndarray, "some byte"]:
        """Return the states of some series as bytes."""
        ...

    def put(self, names: Sequence[str], rows: Sequence[bytes]) -> None:
        """Take up the states of some series that are not here yet, or replace them, from bytes."""
        ...

    def warm_up(self) -> None:
        """Compile what will be needed."""
        ...


class FleetResidents:
    """The states of one particle filter for each series.

    Args:
        filter: The filter that each series has.
        room: How many series there may be; their memory is taken at the start.
        seed: Of all random numbers.
        largest_batch: How many series are stepped in one call at most.
        forecasts: Whether figures hold one-step forecasts; False, the default, saves about 35 μs a step.
    """

    def __init__(
        self,
        filter: Filter,
        room: int,
        seed: int = 0,
        largest_batch: int = LARGEST_BATCH,
        forecasts: bool = False,
    ):
        self.filter, self.room, self.seed = filter, room, seed
        self.parser = EventParser(_shape(filter.shapes.y, "observation"), _inputs_shape(filter), _largest())
        self.columns = columns_of(filter)
        self._key = jax.random.key(seed)
        self._row_of: dict[str, int] = {}
        self._free = list(range(room))[::-1]
        self._batch = -(-min(room, largest_batch) // BLOCK) * BLOCK
        shapes = jax.eval_shape(filter.init, self._key, filter.model.example_inputs)
        self._layout = _Layout(shapes)
        self._series: Any = self._layout.empty(-(-room // BLOCK) * BLOCK)
        self.identity = {"filter": filter.fingerprint, "layout": self._layout.text, "seed": str(seed)}
        self._start = jax.jit(functools.partial(_start, filter), donate_argnums=0)
        self._step = jax.jit(functools.partial(_step, filter, forecasts), donate_argnums=0)
        self._take = jax.jit(_take)
        self._put = jax.jit(_put, donate_argnums=0)

    @property
    def names(self) -> Collection[str]:
        """The series that are here."""
        return self._row_of.keys()

    def one(self, name: str) -> Any:
        """Return the state of one series, for `filter.posterior`."""
        return jax.tree.map(lambda leaf: leaf[self._row_of[name]], self._series)

    def start(self, names: Sequence[str]) -> None:
        """Start series from the prior, new ones or again; their keys depend on the seed and their names alone."""
        self._make_places(names, f"there is room for {self.room} series and no more.")
        for first in range(0, len(names), self._batch):
            self._start_rows(names[first : first + self._batch])

    def drop(self, names: Sequence[str]) -> None:
        """Let go of some series, and make room for others."""
        self._free += [self._row_of.pop(name) for name in names]

    def _make_places(self, names: Sequence[str], refusal: str) -> None:
        new = [name for name in names if name not in self._row_of]
        if len(new) > len(self._free):
            raise DataError(refusal)
        for name in new:
            self._row_of[name] = self._free.pop()

    def _start_rows(self, names: Sequence[str]) -> None:
        keys = keys_for(self._key, (*names, *[None] * (self._batch - len(names))))
        self._series = self._start(self._series, self._rows(names, self._batch), keys, -(-len(names) // BLOCK))

    def step(
        self, names: Sequence[str], ys: Sequence[list[float]], inputs: Sequence[list[float] | None]
    ) -> Float[np.ndarray, "some column"]:
        """Take in one observation of some series, each at most once, and return their new figures."""
        found = []
        for first in range(0, len(names), self._batch):
            some = slice(first, first + self._batch)
            rows = self._rows(names[some], self._batch)
            y = self._filled(ys[some], self.parser.y_shape)
            told = None if self.parser.inputs_shape is None else self._filled(inputs[some], self.parser.inputs_shape)
            num_blocks = -(-len(names[some]) // BLOCK)
            self._series, figures = self._step(self._series, rows, y, told, num_blocks)
            found.append(np.asarray(figures)[: len(names[some])])
        return np.concatenate(found)

    def rows(self, names: Sequence[str]) -> UInt8[np.ndarray, "some byte"]:
        """Return the states of some series as bytes."""
        parts = []
        for first in range(0, len(names), self._batch):
            some = names[first : first + self._batch]
            taken = self._take(self._series, self._rows(some, self._batch))
            parts.append(self._layout.as_bytes(taken)[: len(some)])
        return np.concatenate(parts)

    def packed(self, series: Any) -> UInt8[np.ndarray, "some byte"]:
        """Return states of this filter, with a leading axis of series, as bytes; they need not be here."""
        return self._layout.as_bytes(series)

    def unpacked(self, row: bytes) -> Any:
        """Return the state of one series from bytes; it need not be here."""
        return jax.tree.map(lambda leaf: leaf[0], self._layout.from_bytes([row], 1))

    def key_of(self, name: str) -> Any:
        """Return the random key that a series starts with."""
        return keys_for(self._key, (name,))[0]

    def difference(self, state: Any) -> str:
        """Say how something differs from a state of this filter; empty if it is one."""
        if jax.tree.structure(state) != self._layout.structure:
            return "it has another structure, or another filter made it"
        for (name, wanted), found in zip(self._layout.leaves(), jax.tree.leaves(state), strict=True):
            found = jax.eval_shape(jnp.asarray, found)
            if (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
                return (
                    f"{name} has shape {found.shape} of {found.dtype}, and should have {wanted.shape} of {wanted.dtype}"
                )
        return ""

    def put(self, names: Sequence[str], rows: Sequence[bytes]) -> None:
        """Take up the states of some series that are not here yet, or replace them, from bytes."""
        self._make_places(names, f"the store has more series than there is room for, {self.room}; give more room.")
        for first in range(0, len(names), self._batch):
            some = slice(first, first + self._batch)
            states = self._layout.from_bytes(rows[some], self._batch)
            self._series = self._put(self._series, self._rows(names[some], self._batch), states)

    def warm_up(self) -> None:
        """Compile; rows beyond the last are stepped, and dropped."""
        nothing = self._rows((), self._batch)
        self._start_rows(())
        y = self._filled([], self.parser.y_shape)
        told = None if self.parser.inputs_shape is None else self._filled([], self.parser.inputs_shape)
        self._series, _ = self._step(self._series, nothing, y, told, 1)
        jax.block_until_ready(self._take(self._series, nothing))

    @property
    def _num_rows(self) -> int:
        return len(self._series.time)

    def _rows(self, names: Sequence[str], length: int) -> np.ndarray:
        rows = np.full(length, self._num_rows, np.int32)
        rows[: len(names)] = [self._row_of[name] for name in names]
        return rows

    def _filled(self, values: Sequence[Any], shape: tuple[int, ...]) -> np.ndarray:
        filled = np.zeros((self._batch, math.prod(shape)), jax.dtypes.canonicalize_dtype(float))
        if len(values):
            filled[: len(values)] = values
        return filled.reshape(self._batch, *shape)


class _Layout:
    """How the arrays of one series' state stand in a row of bytes."""

    def __init__(self, shapes: Any):
        self.shapes = shapes
        leaves, self.structure = jax.tree.flatten(shapes)
        self.is_key = [jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) for leaf in leaves]
        plain = [
            jax.eval_shape(jax.random.key_data, leaf) if key else leaf
            for leaf, key in zip(leaves, self.is_key, strict=True)
        ]
        self.parts = [(np.dtype(leaf.dtype), leaf.shape) for leaf in plain]
        names = [name for name, _ in self.leaves()]
        self.text = json.dumps(
            [[name, dtype.str, shape] for name, (dtype, shape) in zip(names, self.parts, strict=True)]
        )
        self.sizes = [dtype.itemsize * math.prod(shape) for dtype, shape in self.parts]

    def leaves(self) -> list[tuple[str, Any]]:
        """Return the names and shapes of the arrays of a state."""
        paths = jax.tree_util.tree_flatten_with_path(self.shapes)[0]
        return [(jax.tree_util.keystr(path).lstrip("."), leaf) for path, leaf in paths]

    def empty(self, num_rows: int) -> Any:
        """Return rows of zeros."""
        return self._tree([np.zeros((num_rows, *shape), dtype) for dtype, shape in self.parts])

    def as_bytes(self, series: Any) -> UInt8[np.ndarray, "some byte"]:
        """Return each row as bytes."""
        leaves = [
            jax.random.key_data(leaf) if key else leaf
            for leaf, key in zip(jax.tree.leaves(series), self.is_key, strict=True)
        ]
        return np.concatenate(
            [np.ascontiguousarray(leaf).reshape(len(leaf), -1).view(np.uint8) for leaf in map(np.asarray, leaves)],
            axis=1,
        )

    def from_bytes(self, rows: Sequence[bytes], num_rows: int) -> Any:
        """Return the rows that `as_bytes` made, among spare ones."""
        if any(len(row) != sum(self.sizes) for row in rows):
            raise StoreError(f"a row of this filter has {sum(self.sizes)} bytes, and one in the store has not.")
        packed = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), sum(self.sizes))
        leaves, start = [], 0
        for (dtype, shape), size in zip(self.parts, self.sizes, strict=True):
            leaf = np.zeros((num_rows, *shape), dtype)
            part = np.ascontiguousarray(packed[:, start : start + size])
            leaf[: len(rows)] = part.view(dtype).reshape(len(rows), *shape)
            leaves.append(leaf)
            start += size
        return self._tree(leaves)

    def _tree(self, leaves: list[np.ndarray]) -> Any:
        # A copy, since JAX may share numpy's memory, and a step gives its memory back.
        arrays = [jnp.array(leaf) for leaf in leaves]
        wrapped = [
            jax.random.wrap_key_data(leaf) if key else leaf for leaf, key in zip(arrays, self.is_key, strict=True)
        ]
        return jax.tree.unflatten(self.structure, wrapped)


def _start(filter: Filter, series: Any, rows: Any, keys: Any, num_blocks: Any) -> Any:
    def one_block(number, series):
        places, own = (jax.lax.dynamic_slice_in_dim(leaf, number * BLOCK, BLOCK) for leaf in (rows, keys))
        new = jax.vmap(lambda key: filter.init(key, filter.model.example_inputs))(own)
        return jax.tree.map(lambda leaf, part: leaf.at[places].set(part, mode="drop"), series, new)

    return jax.lax.fori_loop(0, num_blocks, one_block, series)


def _step(filter: Filter, forecasts: bool, series: Any, rows: Any, ys: Any, inputs: Any, num_blocks: Any) -> Any:
    describe = functools.partial(figures_of, filter, forecasts)
    return blocks.update_blocks(filter, series, rows, ys, inputs, num_blocks, describe)


def _take(series: Any, rows: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf.at[rows].get(mode="clip"), series)


def _put(series: Any, rows: Any, states: Any) -> Any:
    return jax.tree.map(lambda leaf, part: leaf.at[rows].set(part, mode="drop"), series, states)


def _shape(tree: Any, what: str) -> tuple[int, ...]:
    if not jax.tree_util.treedef_is_leaf(jax.tree.structure(tree)):
        raise DataError(f"an event carries one array, and this model's {what} is a tree of several.")
    return tuple(tree.shape)


def _inputs_shape(filter: Filter) -> tuple[int, ...] | None:
    example = filter.model.example_inputs
    return None if example is None else _shape(jax.eval_shape(lambda: jnp.asarray(example)), "inputs")


def _largest() -> float:
    return float(np.finfo(jax.dtypes.canonicalize_dtype(float)).max)
