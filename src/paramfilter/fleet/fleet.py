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
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, Int

from paramfilter import checkpoint
from paramfilter.arguments import require_key, require_kind, whole_number
from paramfilter.errors import DataError, ModelError
from paramfilter.filters import Filter, StepInfo
from paramfilter.filters.window import window_of
from paramfilter.fleet import blocks
from paramfilter.fleet.blocks import BLOCK, WINDOW, bucket
from paramfilter.fleet.forecast import LEVELS, FleetForecast, Task
from paramfilter.fleet.population import Population, learn_population
from paramfilter.fleet.rows import checked_lengths, count_before, fetch, first_of_all, first_rows
from paramfilter.fleet.scores import FleetScores
from paramfilter.fleet.state import FleetState, Ids, distinct, ids_of, keys_for, require_fresh, rows_of, text_of
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
        self._step = self._compiled(blocks.step, donate_argnums=0)
        self._run = self._compiled(blocks.run, donate_argnums=0)
        self._run_scored = self._compiled(blocks.run_scored, donate_argnums=0)
        self._update = self._compiled(blocks.update, donate_argnums=0)
        self._moments = self._compiled(blocks.moments)
        self._forecasts: dict[Task, Callable] = {}

    def _compiled(self, function: Callable, **options: Any) -> Any:
        """Compile a function so that each device computes its own rows of the leading axis."""
        function = functools.partial(function, self.filter.engine)
        if self.mesh is not None:
            rows = PartitionSpec(self.mesh.axis_names[0])
            function = jax.shard_map(function, mesh=self.mesh, in_specs=rows, out_specs=rows, check_vma=False)
        return announced(function, "compiling the fleet", **options)

    @property
    def num_devices(self) -> int:
        """Number of devices that share the series."""
        return 1 if self.mesh is None else self.mesh.size

    def init(
        self, key: KeyArray, ids: Ids, *, inputs: Inputs = None, room: int = 0, prior: Population | None = None
    ) -> FleetState:
        """Start a filter for each id.

        Args:
            key: Random key, `jax.random.key(seed)`.
            ids: Distinct numbers or strings, one per series.
            inputs: Covariates for the model's `initial`, with a leading axis of series; None if it uses none.
            room: Least number of rows to allocate. Fleets with the same number of rows share compiled code.
            prior: A population that replaces the model's prior; None keeps that.

        Returns:
            The state of the fleet before any data.
        """
        require_key(key, "fleet.init(key, ids)")
        ids = distinct(ids)
        keys = keys_for(key, ids + (None,) * (self._num_rows(max(len(ids), room)) - len(ids)))
        keys, inputs = (
            self._shared_out(keys),
            self._filled(self.filter.engine.as_inputs(inputs), np.arange(len(ids)), len(keys)),
        )
        return FleetState(self._begin(keys, inputs, self._prior_of_rows(prior, len(keys))), rows_of(ids), key)

    def _prior_of_rows(self, prior: Population | None, num_rows: int) -> Any:
        """Give each row its prior."""
        if prior is None:
            return None
        require_kind(prior, Population, "prior", "It comes from fleet.population(state).")
        self._require_nodes("prior=")
        spread = lambda leaf: self._shared_out(np.broadcast_to(leaf, (num_rows, *leaf.shape)))
        return jax.tree.map(spread, prior.normal)

    def _require_nodes(self, asker: str) -> None:
        if self.filter.engine.unit != "nodes":
            raise ModelError(f"{asker} needs a fleet of node filters; got {self.filter!r}. Use pf.node_filter(model).")

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
        require_fresh(state)
        num_series = len(state.row_of)
        ys = self._observations(ys, num_series)
        is_due = np.ones(num_series, bool) if mask is None else np.asarray(mask, bool)
        if is_due.shape != (num_series,):
            raise DataError(
                f"mask must have one entry for each of {num_series} series, True if it has an observation; got shape "
                f"{is_due.shape}. Use fleet.update(state, ids, ys) for a few series by name."
            )
        given = self._filled((ys, self.filter.engine.as_inputs(inputs), is_due), np.arange(num_series), state.num_rows)
        series, info = self._step(state.series, *given)
        return replace(state, series=series), first_rows(num_series, info)

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
        require_fresh(state)
        ids = distinct(ids)
        ys = self._observations(ys, len(ids))
        own = state.num_rows // self.num_devices
        devices, rows = np.divmod(state.rows(ids), own)
        # Each device has a bucket for its own rows. Rows beyond its last are read as the last one, and what is written
        # there is dropped.
        size = bucket(int(np.max(np.bincount(devices))))
        places = devices * size + count_before(devices)
        rows = self._filled(rows.astype(np.int32), places, self.num_devices * size, rest=own)
        given = self._filled((ys, self.filter.engine.as_inputs(inputs)), places, self.num_devices * size)
        series, info = self._update(state.series, rows, *given)
        return replace(state, series=series), jax.tree.map(lambda leaf: fetch(leaf)[places], info)

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
        for given in self._windows(state, ys, lengths, inputs):
            state = replace(state, series=self._run(state.series, *given))
        return state

    def run_scored(
        self,
        state: FleetState,
        ys: Observation,
        *,
        lengths: Int[np.ndarray | Array, " series"] | Sequence[int] | None = None,
        inputs: Inputs = None,
    ) -> tuple[FleetState, FleetScores]:
        """Process many observations as `run` does, and return the scores of all one-step forecasts too."""
        scores, num_series = [], len(state.row_of)
        for given in self._windows(state, ys, lengths, inputs):
            series, found = self._run_scored(state.series, *given)
            state = replace(state, series=series)
            scores.append(jax.tree.map(lambda leaf: fetch(leaf)[:num_series], found))
        return state, FleetScores.joined(scores, jax.tree.leaves(ys)[0].shape[1])

    def _windows(
        self, state: FleetState, ys: Observation, lengths: Any, inputs: Inputs
    ) -> Iterator[tuple[Observation, Inputs, Any]]:
        """Cut observations into windows of the same length; say how many of each window each row has."""
        require_fresh(state)
        num_series = len(state.row_of)
        ys = self._observations(ys, num_series, ("series", "time"))
        lengths = checked_lengths(lengths, num_series, jax.tree.leaves(ys)[0].shape[1])
        inputs = self.filter.engine.as_inputs(inputs)
        for start in range(0, max(int(np.max(lengths)), 1), WINDOW):
            given = (*window_of((ys, inputs), start, WINDOW, axis=1), np.clip(lengths - start, 0, WINDOW))
            yield self._filled(given, np.arange(num_series), state.num_rows)

    def add(
        self, state: FleetState, ids: Ids, *, inputs: Inputs = None, prior: Population | str | None = None
    ) -> FleetState:
        """Start a filter for each new id, at the end of the fleet.

        Args:
            state: Current state of the fleet.
            ids: Ids of the new series.
            inputs: Covariates for the model's `initial`, with a leading axis of new series; None if it uses none.
            prior: "population" starts from what the other series have learned, `fleet.population(state)`; pass a
                `Population` to choose which; None uses the model's prior.
        """
        if isinstance(prior, str):
            if prior != "population":
                raise DataError(f'prior must be "population", a Population or None; got {prior!r}.')
            prior = self.population(state)
        known = state.row_of.keys() & set(distinct(ids))
        if known:
            raise DataError(
                f"the fleet already has series {sorted(map(repr, known))[:5]}. Leave them out, or call "
                "fleet.drop first to start them again."
            )
        new = self.init(state.key, ids, inputs=inputs, prior=prior)
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

    def save(self, path: str | os.PathLike, state: FleetState, *, more: Mapping[str, np.ndarray] | None = None) -> None:
        """Write the state of a fleet to a file, atomically, without spare rows; `more` adds arrays of yours."""
        saved = {"series": jax.tree.map(lambda leaf: first_of_all(leaf, len(state.row_of)), state.series)}
        header = {"ids": text_of(state.ids), "key_impl": str(jax.random.key_impl(state.key))}
        header |= {"fingerprint": state.series.fingerprint}
        checkpoint.write(path, checkpoint.FLEET, saved | {"key": state.key} | dict(more or {}), header)

    def restore(self, path: str | os.PathLike) -> FleetState:
        """Read the state of a fleet from a file. The number of devices may differ from that of the saved fleet.

        Raises:
            CheckpointError: The file is damaged, has an unknown format, or belongs to another filter.
        """
        saved = checkpoint.read(path, checkpoint.FLEET, self.filter)
        ids, key = ids_of(saved.header["ids"]), jax.random.key(0, impl=saved.header["key_impl"])
        begin = jax.vmap(self.filter.engine.init, in_axes=(0, None))
        series = jax.eval_shape(
            begin, jax.random.split(key, len(ids)), self.filter.engine.as_inputs(saved.first_inputs(self.filter))
        )
        found = saved.fill({"series": series, "key": key})
        return FleetState(self._arranged(found["series"], np.arange(len(ids))), rows_of(ids), found["key"])

    def population(self, state: FleetState) -> Population:
        """Learn how the parameters differ between series: the prior of a new one, from those that have observations.

        Args:
            state: Current state of the fleet, of node filters.

        Returns:
            A Gaussian over the unconstrained parameters, for `fleet.add(state, ids, prior=...)`.
        """
        self._require_nodes("fleet.population")
        return learn_population(self.filter.model, state.series, len(state.row_of))

    def predict(
        self,
        state: FleetState,
        horizon: int,
        *,
        inputs: Inputs = None,
        num_draws: int = 256,
        levels: Sequence[float] = LEVELS,
    ) -> FleetForecast:
        """Forecast the next observations of every series.

        Each draw has its own theta and state. The same call gives the same numbers.

        Args:
            state: Current state of the fleet. It can be used again.
            horizon: Number of steps ahead.
            inputs: Covariates of these steps, with leading axes (series, horizon); None if the model uses none.
            num_draws: Number of draws for each series.
            levels: Levels of the quantiles, between 0 and 1.

        Returns:
            Means, standard deviations and quantiles of each series at each step ahead.
        """
        require_fresh(state)
        call = "The call is fleet.predict(state, horizon)."
        task = Task(
            whole_number(horizon, "horizon", 1, call), whole_number(num_draws, "num_draws", 1, call), tuple(levels)
        )
        if task not in self._forecasts:
            self._forecasts[task] = self._compiled(task.rows)
        inputs = self._filled(self.filter.engine.as_inputs(inputs), np.arange(len(state.row_of)), state.num_rows)
        found = first_rows(len(state.row_of), self._forecasts[task](state.series, inputs))
        levels_first = jax.tree.map(lambda leaf: np.moveaxis(leaf, 1, 0), found.quantiles)
        return replace(found, quantiles=levels_first, levels=np.asarray(task.levels))

    def mean(self, state: FleetState) -> dict[str, Array | np.ndarray]:
        """Return the posterior means: a dict keyed by parameter name, with a leading axis of series."""
        return first_rows(len(state.row_of), self._moments(state.series).mean)

    def sd(self, state: FleetState) -> dict[str, Array | np.ndarray]:
        """Return the posterior standard deviations: a dict keyed by parameter name, with a leading axis of series."""
        return first_rows(len(state.row_of), jax.tree.map(jnp.sqrt, self._moments(state.series).variance))

    def _observations(self, ys: Observation, num_series: int, leading: tuple[str, ...] = ("series",)) -> Observation:
        ys = self.filter.engine.as_observation(ys, leading=leading)
        lengths = {len(leaf) for leaf in jax.tree.leaves(ys)}
        if lengths != {num_series}:
            raise DataError(
                f"ys must hold one observation for each of {num_series} series; got {sorted(lengths)}. Use NaN for a "
                "series without one, or fleet.update(state, ids, ys) for some of them."
            )
        return ys
