"""One filter for each of many series: sensors, assets, users.

All series share a model and a compiled step; each has its own key, clock and posterior, on a leading axis of the state.
A series is known by its id (a number or a text), and its random numbers come from the fleet's key and its id alone, so
they do not depend on which other series there are, or are updated together with it. Nor do its results, to the last
bit: rows are always stepped in blocks of the same size, for which the same code is compiled. So there are spare rows at
the end of a fleet.

Over several devices the rows are shared out by a mesh, each device steps its own, and nothing is sent between them.

>>> import jax, numpyro.distributions as dist, paramfilter as pf
>>> model = pf.models.linear_gaussian(phi=dist.Normal(0.0, 0.5))
>>> fleet = Fleet(pf.storvik_filter(model, 64))
>>> state = fleet.init(jax.random.key(0), ["oslo", "lima", "kyiv"])
>>> state, info = fleet.update(state, ["kyiv"], [0.3])
>>> state.time.tolist()
[0, 0, 1]
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.multihost_utils import process_allgather
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, Int, Shaped

from paramfilter.errors import DataError
from paramfilter.filters import FilterState, ParticleFilter, StepInfo, keep_where, mixture_moments
from paramfilter.model import strongly_typed
from paramfilter.types import Inputs, KeyArray, Observation

Ids = Sequence[Hashable] | np.ndarray
"""Numbers or texts; also an array of them."""

BLOCK = 16
"""Series that are stepped side by side, block after block: what they need in between fits into a processor's cache, and
there is no row left over that vector instructions would treat in another way."""

BUCKET_FACTOR = 4
"""A sparse batch is filled up to a block times the next power of this: few sizes, so few compiles."""


@dataclass(frozen=True, eq=False)
class FleetState:
    """The states of all series, and which row belongs to whom.

    Attributes:
        series: One `FilterState` whose arrays have a leading axis of series, with spare rows at the end.
        row_of: The row of each id, in the order of the rows.
        key: From which the keys of new series come.
    """

    series: FilterState
    row_of: dict[Hashable, int]
    key: KeyArray

    @property
    def ids(self) -> tuple[Hashable, ...]:
        """The id of each row."""
        return tuple(self.row_of)

    @property
    def time(self) -> Int[Array, " series"]:
        """How many observations each series has taken in."""
        return self.series.time[: len(self.row_of)]

    @property
    def num_rows(self) -> int:
        """Spare rows included."""
        return len(self.series.time)

    def rows(self, ids: tuple[Hashable, ...]) -> np.ndarray:
        """Return the rows of some series."""
        unknown = [one for one in ids if one not in self.row_of]
        if unknown:
            raise DataError(f"the fleet has no series {unknown[:5]!r}; use fleet.add for new ones.")
        return np.array([self.row_of[one] for one in ids], np.int32)


class Fleet:
    """The same filter for many series.

    Args:
        filter: The filter that each series has.
        mesh: The devices that share the series out, on a mesh of one axis; None for the default device.
    """

    def __init__(self, filter: ParticleFilter, mesh: Mesh | None = None):
        if mesh is not None and len(mesh.axis_names) != 1:
            raise DataError(
                f"a fleet needs a mesh of one axis, got {mesh.axis_names}; try jax.make_mesh((8,), ('series',))."
            )
        self.filter = filter
        # Rows are picked by index now and then, which JAX only does on its own for axes of this type.
        self.mesh = mesh and Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Auto,))
        self._begin = jax.jit(self._on_each_device(functools.partial(_begin, filter)))
        # A step gives its memory back: the state that goes in cannot be used again.
        self._step: Any = jax.jit(self._on_each_device(functools.partial(_step, filter)), donate_argnums=0)
        self._update: Any = jax.jit(self._on_each_device(functools.partial(_update, filter)), donate_argnums=0)
        self._moments = jax.jit(self._on_each_device(functools.partial(_moments, filter)))

    def _on_each_device(self, function: Callable) -> Callable:
        """Let each device do its own rows: what comes in and goes out has a leading axis that they share out."""
        if self.mesh is None:
            return function
        rows = PartitionSpec(self.mesh.axis_names[0])
        return jax.shard_map(function, mesh=self.mesh, in_specs=rows, out_specs=rows, check_vma=False)

    @property
    def num_devices(self) -> int:
        """How many devices share the series out."""
        return 1 if self.mesh is None else self.mesh.size

    def init(self, key: KeyArray, ids: Ids, inputs: Inputs = None) -> FleetState:
        """Start a filter for each id; no data are seen.

        Args:
            key: A typed key, `jax.random.key(seed)`.
            ids: Numbers or texts, all different.
            inputs: What the model's `initial` is told, with a leading axis of series, or None.
        """
        ids = _distinct(ids)
        keys = _keys(key, ids + (None,) * (self._num_rows(len(ids)) - len(ids)))
        keys, inputs = self._shared_out(keys), self._filled(strongly_typed(inputs), np.arange(len(ids)), len(keys))
        return FleetState(self._begin(keys, inputs), _rows(ids), key)

    def step(
        self,
        state: FleetState,
        ys: Observation,
        mask: Bool[Array | np.ndarray, " series"] | Sequence[bool] | None = None,
        inputs: Inputs = None,
    ) -> tuple[FleetState, StepInfo]:
        """Take in one observation of every series, or of those where `mask` holds. `state` cannot be used again.

        Args:
            state: The state so far.
            ys: Observations with a leading axis of series; NaN where missing.
            mask: Which series have an observation now; the others stay as they are, and their clocks too.
            inputs: What the model is told, with a leading axis of series, or None.
        """
        num_series, num_rows = len(state.row_of), state.num_rows
        ys = self._observations(ys, num_series)
        is_due = np.ones(num_series, bool) if mask is None else np.asarray(mask, bool)
        given = self._filled((ys, strongly_typed(inputs), is_due), np.arange(num_series), num_rows)
        series, info = self._step(state.series, *given)
        return replace(state, series=series), _first(num_series, info)

    def update(
        self, state: FleetState, ids: Ids, ys: Observation, inputs: Inputs = None
    ) -> tuple[FleetState, StepInfo]:
        """Take in one observation of some series: the cost goes with their number. `state` cannot be used again.

        Args:
            state: The state so far.
            ids: Whose observations they are, each at most once.
            ys: Observations in the order of `ids`.
            inputs: What the model is told, in the same order, or None.
        """
        ids = _distinct(ids)
        ys = self._observations(ys, len(ids))
        own = state.num_rows // self.num_devices
        devices, rows = np.divmod(state.rows(ids), own)
        # Each device has a bucket for its own rows. Rows beyond its last are read as the last one, and what is written
        # there is dropped.
        size = _bucket(int(np.max(np.bincount(devices))))
        places = devices * size + _count_before(devices)
        rows = self._filled(rows.astype(np.int32), places, self.num_devices * size, rest=own)
        given = self._filled((ys, strongly_typed(inputs)), places, self.num_devices * size)
        series, info = self._update(state.series, rows, *given)
        return replace(state, series=series), jax.tree.map(lambda leaf: _fetch(leaf)[places], info)

    def add(self, state: FleetState, ids: Ids, inputs: Inputs = None) -> FleetState:
        """Start a filter for each new id, at the end of the fleet."""
        known = state.row_of.keys() & set(_distinct(ids))
        if known:
            raise DataError(f"the fleet has series {sorted(map(repr, known))[:5]} already.")
        new = self.init(state.key, ids, inputs)
        both = jax.tree.map(lambda old, more: jnp.concatenate([old, more]), state.series, new.series)
        rows = np.concatenate([np.arange(len(state.row_of)), state.num_rows + np.arange(len(new.row_of))])
        return FleetState(self._arranged(both, rows), _rows(state.ids + new.ids), state.key)

    def drop(self, state: FleetState, ids: Ids) -> FleetState:
        """Leave some series out; the others keep their order."""
        gone = set(state.rows(_distinct(ids)).tolist())
        kept = {one: row for one, row in state.row_of.items() if row not in gone}
        return FleetState(self._arranged(state.series, np.array([*kept.values()], int)), _rows(tuple(kept)), state.key)

    def _arranged(self, series: FilterState, rows: np.ndarray) -> FilterState:
        """Take some rows of a fleet, in a new order, and add spare ones."""
        rows = np.concatenate([rows, np.zeros(self._num_rows(len(rows)) - len(rows), int)])
        return jax.tree.map(lambda leaf: self._shared_out(leaf[rows]), series)

    def _num_rows(self, num_series: int) -> int:
        """Return how many rows hold so many series: blocks that are full, as many on each device."""
        unit = BLOCK * self.num_devices
        return -(-num_series // unit) * unit

    def _filled(self, tree: Any, places: np.ndarray, num_places: int, rest: int = 0) -> Any:
        """Put rows at their places among spare ones. By numpy, since JAX would compile it for each length."""

        def fill(leaf):
            leaf = np.asarray(leaf)
            if len(leaf) == num_places and np.array_equal(places, np.arange(num_places)):
                return self._shared_out(leaf)
            filled = np.full((num_places, *leaf.shape[1:]), rest, leaf.dtype)
            filled[places] = leaf
            return self._shared_out(filled)

        return jax.tree.map(fill, tree)

    def _shared_out(self, leaf: Any) -> Any:
        """Put each row on the device that it belongs to; every process has all rows, and keeps its own."""
        if self.mesh is None:
            return jnp.asarray(leaf)
        rows = NamedSharding(self.mesh, PartitionSpec(self.mesh.axis_names[0]))
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(self._shared_out(jax.random.key_data(leaf)), impl=jax.random.key_impl(leaf))
        values = np.asarray(leaf)
        return jax.make_array_from_callback(values.shape, rows, lambda place: values[place])

    def one(self, state: FleetState, series_id: Hashable) -> FilterState:
        """Return the state of one series, for `filter.posterior`, `save` or a step of its own."""
        row = state.rows((series_id,))[0]
        return jax.tree.map(lambda leaf: leaf[row], state.series)

    def mean(self, state: FleetState) -> dict[str, Array]:
        """Return the posterior means of all series, by name, with a leading axis of series."""
        return _first(len(state.row_of), self._moments(state.series).mean)

    def sd(self, state: FleetState) -> dict[str, Array]:
        """Return the posterior standard deviations of all series."""
        return _first(len(state.row_of), jax.tree.map(jnp.sqrt, self._moments(state.series).variance))

    def _observations(self, ys: Observation, num_series: int) -> Observation:
        if jax.tree_util.treedef_is_leaf(jax.tree.structure(self.filter.shapes.y)):
            ys = jnp.asarray(ys, float)  # also from a list
        ys = self.filter.as_observation(ys, leading=("series",))
        lengths = {len(leaf) for leaf in jax.tree.leaves(ys)}
        if lengths != {num_series}:
            raise DataError(f"ys must hold one observation for each of {num_series} series; got {sorted(lengths)}.")
        return ys


def _begin(filter: ParticleFilter, keys: Shaped[Array, " series"], inputs: Inputs) -> FilterState:
    return _in_blocks(filter.init, keys, inputs)


def _step(filter: ParticleFilter, series: FilterState, ys: Observation, inputs: Inputs, is_due: Bool[Array, " series"]):
    new, info = _in_blocks(filter.step, series, ys, inputs)
    return keep_where(is_due, new, series), info


def _update(filter: ParticleFilter, series: FilterState, rows: Int[Array, " row"], ys: Observation, inputs: Inputs):
    some = jax.tree.map(lambda leaf: leaf.at[rows].get(mode="clip"), series)
    new, info = _in_blocks(filter.step, some, ys, inputs)
    return jax.tree.map(lambda leaf, part: leaf.at[rows].set(part, mode="drop"), series, new), info


def _in_blocks(function: Callable, *rows: Any) -> Any:
    """Apply a function to each row: a block of them side by side, block after block."""
    return jax.lax.map(lambda row: function(*row), rows, batch_size=BLOCK)


def _moments(filter: ParticleFilter, series: FilterState) -> Any:
    return _in_blocks(lambda state: mixture_moments(filter, state), series)


def _rows(ids: tuple[Hashable, ...]) -> dict[Hashable, int]:
    return {one: row for row, one in enumerate(ids)}


def _keys(key: KeyArray, ids: tuple[Hashable, ...]) -> Shaped[Array, " series"]:
    """Return a key for each series that depends on its id alone."""
    digests = b"".join(hashlib.blake2b(_text(one).encode(), digest_size=8).digest() for one in ids)
    numbers = jnp.asarray(np.frombuffer(digests, "<u4").reshape(-1, 2))
    return jax.vmap(lambda pair: jax.random.fold_in(jax.random.fold_in(key, pair[0]), pair[1]))(numbers)


def _text(one: Hashable) -> str:
    """Return what an id is told by; numbers of numpy are the same as Python's."""
    return repr(one.item() if isinstance(one, np.generic) else one)


def _distinct(ids: Ids) -> tuple[Hashable, ...]:
    """Return ids as a tuple, or refuse them."""
    ids = tuple(ids.tolist() if isinstance(ids, np.ndarray) else ids)
    if not ids:
        raise DataError("a fleet or a batch needs at least one series.")
    if len(set(ids)) != len(ids):
        twice = next(one for place, one in enumerate(ids) if one in ids[:place])
        raise DataError(f"the series {twice!r} is named twice; each has one row and one observation at a time.")
    return ids


def _first(num: int, tree: Any) -> Any:
    """Leave the spare rows out."""
    return jax.tree.map(lambda leaf: leaf if len(leaf) == num else leaf[:num], tree)


def _fetch(leaf: Array) -> np.ndarray:
    """Return an array with all rows, also those that other processes hold."""
    return np.asarray(leaf if leaf.is_fully_addressable else process_allgather(leaf, tiled=True))


def _count_before(values: np.ndarray) -> np.ndarray:
    """Return for each place how many of the places before it hold the same value.

    >>> _count_before(np.array([3, 1, 3, 3, 1])).tolist()
    [0, 0, 1, 2, 1]
    """
    order = np.argsort(values, kind="stable")
    starts = np.searchsorted(values[order], values[order])
    counts = np.empty_like(order)
    counts[order] = np.arange(len(values)) - starts
    return counts


def _bucket(size: int) -> int:
    bucket = BLOCK
    while bucket < size:
        bucket *= BUCKET_FACTOR
    return bucket
