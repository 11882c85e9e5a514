"""One filter for each of many series: sensors, assets, users.

All series share a model and a compiled step. Each has its own key, time and posterior, on a leading axis of the state.
A series has an id (a number or a string). Its random numbers depend only on the fleet's key and its id, and its results
do not depend on the other series, to the last bit: rows are always stepped in blocks of the same size, which use the
same compiled code. A fleet therefore has spare rows at its end.

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
from paramfilter.fleet.rows import checked_lengths, choose, first_rows
from paramfilter.fleet.scores import FleetScores
from paramfilter.fleet.state import FleetState, Ids, distinct, ids_of, keys_for, require_fresh, rows_of, text_of
from paramfilter.types import Inputs, KeyArray, Observation

NOT_RENEWED = -1
"""In place of the flags of a renewal."""


class Fleet:
    """Run the same filter for many series.

    Args:
        filter: The filter of each series, such as `auto_filter(model)`.

    Example:
        >>> import jax, paramfilter as pf
        >>> fleet = Fleet(pf.storvik_filter(pf.models.linear_gaussian(), 64))
        >>> state = fleet.init(jax.random.key(0), ["oslo", "lima"])
        >>> state, info = fleet.step(state, [0.3, -0.1])
        >>> fleet.mean(state)["phi"].shape
        (2,)
    """

    def __init__(self, filter: Filter):
        require_kind(filter, Filter, "filter", "The call is Fleet(filter); ids are given to fleet.init.")
        self.filter = filter
        compiled = filter.engine.compiled
        self._begin, self._moments, self._take = map(compiled, (blocks.begin, blocks.moments, blocks.take))
        # These free the memory of the old state, which cannot be used again.
        changing = (blocks.step, blocks.run, blocks.run_scored, blocks.update, blocks.put, blocks.renew)
        self._step, self._run, self._run_scored, self._update, self._put, self._renew = (
            compiled(function, donate_argnums=0) for function in changing
        )

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
        keys = keys_for(key, ids + (None,) * (_num_rows(max(len(ids), room)) - len(ids)))
        inputs = _filled(self.filter.engine.as_inputs(inputs), len(keys))
        return FleetState(self._begin(keys, inputs, self._prior_of_rows(prior, len(keys))), rows_of(ids), key)

    def _prior_of_rows(self, prior: Population | None, num_rows: int) -> Any:
        """Give each row its prior."""
        if prior is not None:
            require_kind(prior, Population, "prior", "It comes from fleet.population(state).")
            self._require_nodes("prior=")
        return prior and jax.tree.map(lambda leaf: np.broadcast_to(leaf, (num_rows, *leaf.shape)), prior.normal)

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
        has_one = np.ones(num_series, bool) if mask is None else np.asarray(mask, bool)
        if has_one.shape != (num_series,):
            raise DataError(
                f"mask must have one entry for each of {num_series} series, True if it has an observation; got shape "
                f"{has_one.shape}. Use fleet.update(state, ids, ys) for a few series by name."
            )
        rows = jax.tree.map(lambda leaf: leaf[:, None], (ys, self.filter.engine.as_inputs(inputs)))
        series, info, flags = self._through(self._step, state.series, rows, has_one)
        info = first_rows(num_series, jax.tree.map(lambda leaf: leaf[:, 0], info))
        nothing = lambda leaf: np.nan if np.issubdtype(leaf.dtype, np.floating) else leaf.dtype.type(0)
        info = jax.tree.map(lambda leaf: choose(has_one, leaf, nothing(leaf)), info)
        return replace(state, series=series), _with_flags(info, flags[:num_series])

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
        rows = state.rows(ids)
        places = np.pad(rows, (0, bucket(len(rows)) - len(rows)), constant_values=state.num_rows)
        given = _filled((ys, self.filter.engine.as_inputs(inputs)), len(places))
        series, are_due, info = self._update(state.series, places, *given)
        flags = np.full(state.num_rows, NOT_RENEWED)
        if self.filter.engine.renews and np.any(are_due):
            series = self._renewed(flags, series, rows[np.asarray(are_due)[: len(rows)]])
        return replace(state, series=series), _with_flags(first_rows(len(rows), info), flags[rows])

    def _through(
        self, program: Callable, series: Any, given: Any, lengths: np.ndarray
    ) -> tuple[Any, Any, Int[np.ndarray, " row"]]:
        """Take in a window; return what the program described too, and the flags that renewals raised."""
        ys, inputs, lengths = _filled((*given, lengths.astype(np.int32)), len(series.time))
        flags = np.full(len(lengths), NOT_RENEWED)
        advance = lambda series, starts: program(series, ys, inputs, starts, lengths)
        renew = functools.partial(self._renewed, flags) if self.filter.engine.renews else None
        return *blocks.through(advance, renew, series, lengths), flags

    def _renewed(self, flags: np.ndarray, series: Any, rows: np.ndarray, times: Any = None) -> Any:
        """Renew the nodes of some rows, a block at a time, and note the flags that this raises."""
        for first in range(0, len(rows), BLOCK):
            some = rows[first : first + BLOCK]
            places = np.pad(some, (0, BLOCK - len(some)), constant_values=len(series.time))
            renewed, raised = self._renew(self._take(series, places), len(some))
            series = self._put(series, places, renewed)
            flags[some] = raised[: len(some)] | np.maximum(flags[some], 0)
        return series

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
        for given, counts in self._windows(state, ys, lengths, inputs):
            state = replace(state, series=self._through(self._run, state.series, given, counts)[0])
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
        for given, counts in self._windows(state, ys, lengths, inputs):
            series, found, _ = self._through(self._run_scored, state.series, given, counts)
            state, is_there = replace(state, series=series), np.arange(WINDOW) < counts[:, None]
            there = lambda leaf, is_there=is_there: choose(is_there, np.asarray(leaf)[:num_series], np.nan)
            scores.append(jax.tree.map(there, found))
        return state, FleetScores.joined(scores, jax.tree.leaves(ys)[0].shape[1])

    def _windows(
        self, state: FleetState, ys: Observation, lengths: Any, inputs: Inputs
    ) -> Iterator[tuple[tuple[Observation, Inputs], np.ndarray]]:
        """Cut observations into windows of the same length; say how many of each window each row has."""
        require_fresh(state)
        num_series = len(state.row_of)
        ys = self._observations(ys, num_series, ("series", "time"))
        lengths = checked_lengths(lengths, num_series, jax.tree.leaves(ys)[0].shape[1])
        inputs = self.filter.engine.as_inputs(inputs)
        for start in range(0, max(int(np.max(lengths)), 1), WINDOW):
            yield window_of((ys, inputs), start, WINDOW, axis=1), np.clip(lengths - start, 0, WINDOW)

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
        rows = np.pad(rows, (0, _num_rows(len(rows)) - len(rows)))
        return jax.tree.map(lambda leaf: leaf[rows], series)

    def one(self, state: FleetState, series_id: Hashable) -> Any:
        """Return the state of one series, for `filter.posterior`, `filter.step` or `save`."""
        row = state.rows((series_id,))[0]
        return jax.tree.map(lambda leaf: leaf[row], state.series)

    def save(self, path: str | os.PathLike, state: FleetState, *, more: Mapping[str, np.ndarray] | None = None) -> None:
        """Write the state of a fleet to a file, atomically, without spare rows; `more` adds arrays of yours."""
        saved = {"series": jax.tree.map(lambda leaf: leaf[: len(state.row_of)], state.series)}
        header = {"ids": text_of(state.ids), "key_impl": str(jax.random.key_impl(state.key))}
        header |= {"fingerprint": state.series.fingerprint}
        checkpoint.write(path, checkpoint.FLEET, saved | {"key": state.key} | dict(more or {}), header)

    def restore(self, path: str | os.PathLike) -> FleetState:
        """Read the state of a fleet from a file.

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
        inputs = _filled(self.filter.engine.as_inputs(inputs), state.num_rows)
        found = first_rows(len(state.row_of), self.filter.engine.compiled(task.rows)(state.series, inputs))
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


def _num_rows(num_series: int) -> int:
    """Return the number of rows for `num_series` series: full blocks."""
    return -(-num_series // BLOCK) * BLOCK


def _filled(tree: Any, num_rows: int) -> Any:
    """Add spare rows. By numpy, since JAX would compile it for each length."""
    pad = lambda leaf: np.pad(leaf, [(0, num_rows - len(leaf)), *[(0, 0)] * (np.ndim(leaf) - 1)])
    return jax.tree.map(lambda leaf: pad(np.asarray(leaf)), tree)


def _with_flags(info: Any, flags: Int[np.ndarray, " series"]) -> Any:
    """Say of which series the nodes were renewed, and the flags that this raised."""
    is_renewed = flags != NOT_RENEWED
    if not np.any(is_renewed):
        return info
    return replace(info, renewed=is_renewed, outcome=info.outcome | np.where(is_renewed, flags, 0))
