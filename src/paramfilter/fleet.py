"""One filter for each of many series: sensors, assets, users.

All series share a model and a compiled step; each has its own key, clock and posterior, on a leading axis of the state.
A series is known by its id (a number or a text), and its random numbers come from the fleet's key and its id alone, so
they do not depend on which other series there are, or are updated together with it.

>>> import jax, numpyro.distributions as dist, paramfilter as pf
>>> model = pf.models.linear_gaussian(phi=dist.Normal(0.0, 0.5))
>>> fleet = Fleet(pf.storvik_filter(model, 64))
>>> state = fleet.init(jax.random.key(0), ["oslo", "lima", "kyiv"])
>>> state, info = fleet.update(state, ["kyiv"], [0.3])
>>> state.time.tolist()
[0, 0, 1]
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Shaped

from paramfilter.errors import DataError
from paramfilter.filters import FilterState, ParticleFilter, StepInfo, mixture_moments
from paramfilter.model import strongly_typed
from paramfilter.types import Inputs, KeyArray, Observation

BUCKET_FACTOR = 4
"""A sparse batch is filled up to the next power of this: few sizes, so few compiles."""


@dataclass(frozen=True, eq=False)
class FleetState:
    """The states of all series, and which row belongs to whom.

    Attributes:
        series: One `FilterState` whose arrays have a leading axis of series.
        ids: The id of each row.
        key: From which the keys of new series come.
    """

    series: FilterState
    ids: tuple[Hashable, ...]
    key: KeyArray

    @property
    def time(self) -> Int[Array, " series"]:
        """How many observations each series has taken in."""
        return self.series.time

    def rows(self, ids: Sequence[Hashable]) -> np.ndarray:
        """Return the rows of some series."""
        place = self._places()
        unknown = [one for one in ids if one not in place]
        if unknown:
            raise DataError(f"the fleet has no series {unknown[:5]!r}; use fleet.add for new ones.")
        return np.array([place[one] for one in ids], np.int32)

    def _places(self) -> dict[Hashable, int]:
        if "places" not in self.__dict__:
            object.__setattr__(self, "places", {one: row for row, one in enumerate(self.ids)})
        return self.__dict__["places"]


class Fleet:
    """The same filter for many series.

    Args:
        filter: The filter that each series has.
    """

    def __init__(self, filter: ParticleFilter):
        self.filter = filter
        # A step gives its memory back: the state that goes in cannot be used again.
        self._step = jax.jit(_step, static_argnums=0, donate_argnums=1)
        self._update = jax.jit(_update, static_argnums=0, donate_argnums=1)

    def init(self, key: KeyArray, ids: Sequence[Hashable], inputs: Inputs = None) -> FleetState:
        """Start a filter for each id; no data are seen.

        Args:
            key: A typed key, `jax.random.key(seed)`.
            ids: Numbers or texts, all different.
            inputs: What the model's `initial` is told, with a leading axis of series, or None.
        """
        ids = tuple(ids)
        _check_ids(ids)
        return FleetState(self.filter.compiled(_begin)(_keys(key, ids), strongly_typed(inputs)), ids, key)

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
        ys = self._observations(ys, len(state.ids))
        is_due = jnp.ones(len(state.ids), bool) if mask is None else jnp.asarray(mask, bool)
        series, info = self._step(self.filter, state.series, ys, strongly_typed(inputs), is_due)
        return replace(state, series=series), info

    def update(
        self, state: FleetState, ids: Sequence[Hashable], ys: Observation, inputs: Inputs = None
    ) -> tuple[FleetState, StepInfo]:
        """Take in one observation of some series: the cost goes with their number. `state` cannot be used again.

        Args:
            state: The state so far.
            ids: Whose observations they are, each at most once.
            ys: Observations in the order of `ids`.
            inputs: What the model is told, in the same order, or None.
        """
        _check_ids(ids)
        rows, size = state.rows(ids), _bucket(len(ids))
        ys = self._observations(ys, len(ids))
        # Rows beyond the last are read as the last one, and what is written there is dropped.
        rows = np.concatenate([rows, np.full(size - len(rows), len(state.ids), np.int32)])
        fill = lambda leaf: jnp.concatenate([leaf, jnp.zeros((size - len(leaf), *leaf.shape[1:]), leaf.dtype)])
        ys, inputs = jax.tree.map(fill, (ys, strongly_typed(jax.tree.map(jnp.asarray, inputs))))
        series, info = self._update(self.filter, state.series, jnp.asarray(rows), ys, inputs)
        return replace(state, series=series), jax.tree.map(lambda leaf: leaf[: len(ids)], info)

    def add(self, state: FleetState, ids: Sequence[Hashable], inputs: Inputs = None) -> FleetState:
        """Start a filter for each new id, at the end of the fleet."""
        known = set(state.ids) & set(ids)
        if known:
            raise DataError(f"the fleet has series {sorted(map(repr, known))[:5]} already.")
        new = self.init(state.key, ids, inputs)
        series = jax.tree.map(lambda old, more: jnp.concatenate([old, more]), state.series, new.series)
        return FleetState(series, state.ids + new.ids, state.key)

    def drop(self, state: FleetState, ids: Sequence[Hashable]) -> FleetState:
        """Leave some series out; the others keep their order."""
        gone = set(state.rows(ids).tolist())
        kept = np.array([row for row in range(len(state.ids)) if row not in gone], np.int32)
        series = jax.tree.map(lambda leaf: leaf[kept], state.series)
        return FleetState(series, tuple(state.ids[row] for row in kept), state.key)

    def one(self, state: FleetState, series_id: Hashable) -> FilterState:
        """Return the state of one series, for `filter.posterior`, `save` or a step of its own."""
        row = state.rows([series_id])[0]
        return jax.tree.map(lambda leaf: leaf[row], state.series)

    def mean(self, state: FleetState) -> dict[str, Array]:
        """Return the posterior means of all series, by name, with a leading axis of series."""
        return self.filter.compiled(_moments)(state.series).mean

    def sd(self, state: FleetState) -> dict[str, Array]:
        """Return the posterior standard deviations of all series."""
        return jax.tree.map(jnp.sqrt, self.filter.compiled(_moments)(state.series).variance)

    def _observations(self, ys: Observation, num_series: int) -> Observation:
        if jax.tree_util.treedef_is_leaf(jax.tree.structure(self.filter.shapes.y)):
            ys = jnp.asarray(ys, float)  # also from a list
        ys = self.filter.as_observation(ys, leading=("series",))
        lengths = {len(leaf) for leaf in jax.tree.leaves(ys)}
        if lengths != {num_series}:
            raise DataError(f"ys must hold one observation for each of {num_series} series; got {sorted(lengths)}.")
        return ys


def _begin(filter: ParticleFilter, keys: Shaped[Array, " series"], inputs: Inputs) -> FilterState:
    return jax.vmap(filter.init)(keys, inputs)


def _step(filter: ParticleFilter, series: FilterState, ys: Observation, inputs: Inputs, is_due: Bool[Array, " series"]):
    new, info = jax.vmap(filter.step)(series, ys, inputs)
    return jax.tree.map(lambda one, other: _where(is_due, one, other), new, series), info


def _update(filter: ParticleFilter, series: FilterState, rows: Int[Array, " row"], ys: Observation, inputs: Inputs):
    some = jax.tree.map(lambda leaf: leaf.at[rows].get(mode="clip"), series)
    new, info = jax.vmap(filter.step)(some, ys, inputs)
    return jax.tree.map(lambda leaf, part: leaf.at[rows].set(part, mode="drop"), series, new), info


def _moments(filter: ParticleFilter, series: FilterState) -> Any:
    return jax.vmap(lambda state: mixture_moments(filter, state))(series)


def _where(mask: Bool[Array, " series"], one: Array, other: Array) -> Array:
    return jnp.where(mask.reshape(-1, *[1] * (one.ndim - 1)), one, other)


def _keys(key: KeyArray, ids: Sequence[Hashable]) -> Shaped[Array, " series"]:
    """Return a key for each series that depends on its id alone."""
    numbers = np.array([zlib.crc32(repr(one).encode()) for one in ids], np.uint32)
    return jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.asarray(numbers))


def _check_ids(ids: Sequence[Hashable]) -> None:
    if len(ids) == 0:
        raise DataError("a fleet or a batch needs at least one series.")
    if len(set(ids)) != len(ids):
        twice = next(one for place, one in enumerate(ids) if one in ids[:place])
        raise DataError(f"the series {twice!r} is named twice; each has one row and one observation at a time.")


def _bucket(size: int) -> int:
    bucket = 1
    while bucket < size:
        bucket *= BUCKET_FACTOR
    return bucket
