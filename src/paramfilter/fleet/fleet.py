"""One filter for each of many series: sensors, assets, users.

All series share a model and a compiled step. Each has its own key, time and posterior, on a leading axis of the state.
A series has an id (a number or a string). Its random numbers depend only on the fleet's key and its id, and its results
do not depend on the other series, to the last bit: rows are always stepped in blocks of the same size, which use the
same compiled code. A fleet therefore has spare rows at its end.

With a mesh, each device steps its own rows, and the devices do not communicate.

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
import os
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.multihost_utils import process_allgather
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, Int

from paramfilter import checkpoint
from paramfilter.arguments import require_key, require_kind
from paramfilter.errors import DataError
from paramfilter.filters import Filter, StepInfo
from paramfilter.filters.advance import window_of
from paramfilter.fleet import blocks
from paramfilter.fleet.blocks import BLOCK, WINDOW, bucket
from paramfilter.fleet.state import FleetState, Ids, distinct, ids_of, keys_for, rows_of, text_of
from paramfilter.model import as_inputs
from paramfilter.types import Inputs, KeyArray, Observation
from paramfilter.waiting import announced


class Fleet:
    """Run the same filter for many series.

    Args:
        filter: The filter of each series, such as `auto_filter(model)`.
        mesh: Devices that share the series, as a mesh with one axis; None uses the default device.

    Example:
        >>> import jax, paramfilter as pf
        >>> fleet = Fleet(pf.storvik_filter(pf.models.linear_gaussian(), 64))
        >>> state = fleet.init(jax.random.key(0), ["oslo", "lima"])
        >>> state, info = fleet.step(state, [0.3, -0.1])
        >>> fleet.mean(state)["phi"].shape
        (2,)
    """

    def __init__(self, filter: Filter, mesh: Mesh | None = None):
        require_kind(filter, Filter, "filter", "The call is Fleet(filter); ids are given to fleet.init.")
        if mesh is not None:
            require_kind(mesh, Mesh, "mesh", "The call is Fleet(filter); ids are given to fleet.init.")
        if mesh is not None and len(mesh.axis_names) != 1:
            raise DataError(
                f"mesh must have one axis, got {mesh.axis_names}. Write jax.make_mesh((8,), ('series',)), for example."
            )
        self.filter = filter
        # Rows are picked by index now and then, which JAX only does on its own for axes of this type.
        self.mesh = mesh and Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Auto,))
        self._begin = self._compiled(blocks.begin)
        # A step frees the memory of the old state, which cannot be used again.
        self._advance = self._compiled(blocks.advance, donate_argnums=0)
        self._update = self._compiled(blocks.update, donate_argnums=0)
        self._moments = self._compiled(blocks.moments)

    def _compiled(self, function: Callable, **options: Any) -> Any:
        """Compile a function so that each device computes its own rows of the leading axis."""
        function = functools.partial(function, self.filter)
        if self.mesh is not None:
            rows = PartitionSpec(self.mesh.axis_names[0])
            function = jax.shard_map(function, mesh=self.mesh, in_specs=rows, out_specs=rows, check_vma=False)
        return announced(function, "compiling the fleet", **options)

    @property
    def num_devices(self) -> int:
        """Number of devices that share the series."""
        return 1 if self.mesh is None else self.mesh.size

    def init(self, key: KeyArray, ids: Ids, *, inputs: Inputs = None, room: int = 0) -> FleetState:
        """Start a filter for each id.

        Args:
            key: Random key, `jax.random.key(seed)`.
            ids: Distinct numbers or strings, one per series.
            inputs: Covariates for the model's `initial`, with a leading axis of series; None if it uses none.
            room: Least number of rows to allocate. Fleets with the same number of rows share compiled code.

        Returns:
            The state of the fleet before any data.
        """
        require_key(key, "fleet.init(key, ids)")
        ids = distinct(ids)
        keys = keys_for(key, ids + (None,) * (self._num_rows(max(len(ids), room)) - len(ids)))
        keys, inputs = self._shared_out(keys), self._filled(as_inputs(inputs), np.arange(len(ids)), len(keys))
        return FleetState(self._begin(keys, inputs), rows_of(ids), key)

    def step(
        self,
        state: FleetState,
        ys: Observation,
        *,
        mask: Bool[Array | np.ndarray, " series"] | Sequence[bool] | None = None,
        inputs: Inputs = None,
    ) -> tuple[FleetState, StepInfo]:
        """Process one observation of every series, or of the series selected by `mask`.

        Args:
            state: Current state of the fleet. The call frees its memory; continue with the returned state.
            ys: Observations with a leading axis of series; NaN where missing.
            mask: True for each series that has an observation now; the others do not advance. None selects all.
            inputs: Covariates with a leading axis of series; None if the model uses none.

        Returns:
            The new state, and a `StepInfo` with a leading axis of series.
        """
        _require_fresh(state)
        num_series = len(state.row_of)
        ys = self._observations(ys, num_series)
        is_due = np.ones(num_series, bool) if mask is None else np.asarray(mask, bool)
        if is_due.shape != (num_series,):
            raise DataError(
                f"mask must have one entry for each of {num_series} series, True if it has an observation; got shape "
                f"{is_due.shape}. Use fleet.update(state, ids, ys) for a few series by name."
            )
        ys, inputs = jax.tree.map(lambda leaf: np.asarray(leaf)[:, None], (ys, as_inputs(inputs)))
        series, info = self._advanced(state, ys, inputs, 0, is_due.astype(np.int32))
        return replace(state, series=series), _first(num_series, info)

    def _advanced(
        self, state: FleetState, ys: Observation, inputs: Inputs, start: int, lengths: np.ndarray
    ) -> tuple[Any, StepInfo]:
        """Process observations from `start` on: of each series as many as its length, at most `WINDOW`."""
        given = (*window_of((ys, inputs), start, WINDOW, axis=1), lengths)
        return self._advance(state.series, *self._filled(given, np.arange(len(lengths)), state.num_rows))

    def update(
        self, state: FleetState, ids: Ids, ys: Observation, *, inputs: Inputs = None
    ) -> tuple[FleetState, StepInfo]:
        """Process one observation of some series, at a cost that grows with their number.

        Args:
            state: Current state of the fleet. The call frees its memory; continue with the returned state.
            ids: Ids of the series, each at most once.
            ys: Observations in the order of `ids`.
            inputs: Covariates in the same order; None if the model uses none.

        Returns:
            The new state, and a `StepInfo` in the order of `ids`.
        """
        _require_fresh(state)
        ids = distinct(ids)
        ys = self._observations(ys, len(ids))
        own = state.num_rows // self.num_devices
        devices, rows = np.divmod(state.rows(ids), own)
        # Each device has a bucket for its own rows. Rows beyond its last are read as the last one, and what is written
        # there is dropped.
        size = bucket(int(np.max(np.bincount(devices))))
        places = devices * size + _count_before(devices)
        rows = self._filled(rows.astype(np.int32), places, self.num_devices * size, rest=own)
        given = self._filled((ys, as_inputs(inputs)), places, self.num_devices * size)
        series, info = self._update(state.series, rows, *given)
        return replace(state, series=series), jax.tree.map(lambda leaf: _fetch(leaf)[places], info)

    def run(
        self,
        state: FleetState,
        ys: Observation,
        *,
        lengths: Int[np.ndarray | Array, " series"] | Sequence[int] | None = None,
        inputs: Inputs = None,
    ) -> FleetState:
        """Process many observations of every series in one call.

        Args:
            state: Current state of the fleet. The call frees its memory; continue with the returned state.
            ys: Observations with leading axes (series, time); NaN where missing.
            lengths: Number of observations of each series; later ones are ignored. None uses all.
            inputs: Covariates with the same leading axes; None if the model uses none.

        Returns:
            The new state.
        """
        _require_fresh(state)
        num_series = len(state.row_of)
        ys = self._observations(ys, num_series, ("series", "time"))
        num_times = jax.tree.leaves(ys)[0].shape[1]
        lengths = np.full(num_series, num_times, np.int32) if lengths is None else np.asarray(lengths, np.int32)
        if lengths.shape != (num_series,) or np.any(lengths < 0) or np.any(lengths > num_times):
            raise DataError(
                f"lengths must hold a number between 0 and {num_times} for each of {num_series} series; got "
                f"{lengths.tolist()[:5]}. Pass the number of observations of each series, or None for all."
            )
        inputs = as_inputs(inputs)
        for start in range(0, int(np.max(lengths)), WINDOW):
            series, _ = self._advanced(state, ys, inputs, start, np.clip(lengths - start, 0, WINDOW))
            state = replace(state, series=series)
        return state

    def add(self, state: FleetState, ids: Ids, *, inputs: Inputs = None) -> FleetState:
        """Start a filter for each new id, at the end of the fleet.

        Args:
            state: Current state of the fleet.
            ids: Ids of the new series.
            inputs: Covariates for the model's `initial`, with a leading axis of new series; None if it uses none.
        """
        known = state.row_of.keys() & set(distinct(ids))
        if known:
            raise DataError(
                f"the fleet already has series {sorted(map(repr, known))[:5]}. Leave them out, or call "
                "fleet.drop first to start them again."
            )
        new = self.init(state.key, ids, inputs=inputs)
        both = jax.tree.map(lambda old, more: jnp.concatenate([old, more]), state.series, new.series)
        rows = np.concatenate([np.arange(len(state.row_of)), state.num_rows + np.arange(len(new.row_of))])
        return FleetState(self._arranged(both, rows), rows_of(state.ids + new.ids), state.key)

    def drop(self, state: FleetState, ids: Ids) -> FleetState:
        """Remove series by id; the others keep their order."""
        gone = set(state.rows(distinct(ids)).tolist())
        kept = {one: row for one, row in state.row_of.items() if row not in gone}
        return FleetState(
            self._arranged(state.series, np.array([*kept.values()], int)), rows_of(tuple(kept)), state.key
        )

    def _arranged(self, series: Any, rows: np.ndarray) -> Any:
        """Select rows of a fleet in a new order, and add spare rows."""
        rows = np.concatenate([rows, np.zeros(self._num_rows(len(rows)) - len(rows), int)])
        return jax.tree.map(lambda leaf: self._shared_out(leaf[rows]), series)

    def _num_rows(self, num_series: int) -> int:
        """Return the number of rows for `num_series` series: full blocks, the same number on each device."""
        unit = BLOCK * self.num_devices
        return -(-num_series // unit) * unit

    def _filled(self, tree: Any, places: np.ndarray, num_places: int, rest: int = 0) -> Any:
        """Put rows at their places among spare ones. By numpy, since JAX would compile it for each length."""

        def fill(leaf):
            leaf = np.asarray(leaf)
            filled = np.full((num_places, *leaf.shape[1:]), rest, leaf.dtype)
            filled[places] = leaf
            return self._shared_out(filled)

        return jax.tree.map(fill, tree)

    def _shared_out(self, leaf: Any) -> Any:
        """Place each row on its device. Every process passes all rows and keeps its own."""
        if self.mesh is None:
            return jnp.asarray(leaf)
        rows = NamedSharding(self.mesh, PartitionSpec(self.mesh.axis_names[0]))
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(self._shared_out(jax.random.key_data(leaf)), impl=jax.random.key_impl(leaf))
        values = np.asarray(leaf)
        return jax.make_array_from_callback(values.shape, rows, lambda place: values[place])

    def one(self, state: FleetState, series_id: Hashable) -> Any:
        """Return the state of one series, for `filter.posterior`, `filter.step` or `save`."""
        row = state.rows((series_id,))[0]
        return jax.tree.map(lambda leaf: leaf[row], state.series)

    def save(self, path: str | os.PathLike, state: FleetState) -> None:
        """Write the state of a fleet to a file, atomically, without spare rows."""
        saved = {"series": jax.tree.map(lambda leaf: _first_rows(leaf, len(state.row_of)), state.series)}
        header = {"ids": text_of(state.ids), "key_impl": str(jax.random.key_impl(state.key))}
        checkpoint.write(
            path, checkpoint.FLEET, saved | {"key": state.key}, header | {"fingerprint": state.series.fingerprint}
        )

    def restore(self, path: str | os.PathLike) -> FleetState:
        """Read the state of a fleet from a file. The number of devices may differ from that of the saved fleet.

        Raises:
            CheckpointError: The file is damaged, has an unknown format, or belongs to another filter.
        """
        saved = checkpoint.read(path, checkpoint.FLEET, self.filter)
        ids, key = ids_of(saved.header["ids"]), jax.random.key(0, impl=saved.header["key_impl"])
        begin = jax.vmap(self.filter.init, in_axes=(0, None))
        series = jax.eval_shape(begin, jax.random.split(key, len(ids)), as_inputs(saved.first_inputs(self.filter)))
        found = saved.fill({"series": series, "key": key})
        return FleetState(self._arranged(found["series"], np.arange(len(ids))), rows_of(ids), found["key"])

    def mean(self, state: FleetState) -> dict[str, Array | np.ndarray]:
        """Return the posterior means: a dict keyed by parameter name, with a leading axis of series."""
        return _first(len(state.row_of), self._moments(state.series).mean)

    def sd(self, state: FleetState) -> dict[str, Array | np.ndarray]:
        """Return the posterior standard deviations: a dict keyed by parameter name, with a leading axis of series."""
        return _first(len(state.row_of), jax.tree.map(jnp.sqrt, self._moments(state.series).variance))

    def _observations(self, ys: Observation, num_series: int, leading: tuple[str, ...] = ("series",)) -> Observation:
        ys = self.filter.as_observation(ys, leading=leading)
        lengths = {len(leaf) for leaf in jax.tree.leaves(ys)}
        if lengths != {num_series}:
            raise DataError(
                f"ys must hold one observation for each of {num_series} series; got {sorted(lengths)}. Use NaN for a "
                "series without one, or fleet.update(state, ids, ys) for some of them."
            )
        return ys


def _require_fresh(state: FleetState) -> None:
    """Refuse anything but the state of a fleet, and a state whose memory an earlier call has freed."""
    require_kind(state, FleetState, "state", "Begin with state = fleet.init(jax.random.key(0), ids).")
    if isinstance(state.series.time, jax.Array) and state.series.time.is_deleted():
        raise DataError(
            "this state was used up: step, update and run of a fleet free its memory. Continue with the "
            "state that the call returned, as in state, info = fleet.step(state, ys)."
        )


def _first(num: int, tree: Any) -> Any:
    """Remove the spare rows."""
    # By numpy where it can be, since JAX would compile a program for each number.
    return jax.tree.map(lambda leaf: (np.asarray(leaf) if leaf.is_fully_addressable else leaf)[:num], tree)


def _first_rows(leaf: Any, num: int) -> Any:
    """Return the first rows, also those that other processes hold."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(_first_rows(jax.random.key_data(leaf), num), impl=jax.random.key_impl(leaf))
    return _fetch(leaf)[:num]


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
