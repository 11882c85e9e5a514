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

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Shaped

from paramfilter.errors import DataError
from paramfilter.filters import FilterState, ParticleFilter, StepInfo, keep_where, mixture_moments
from paramfilter.model import strongly_typed
from paramfilter.types import Inputs, KeyArray, Observation

Ids = Sequence[Hashable] | np.ndarray
"""Numbers or texts; also an array of them."""

BUCKET_FACTOR = 4
"""A sparse batch is filled up to the next power of this: few sizes, so few compiles."""


@dataclass(frozen=True, eq=False)
class FleetState:
    """The states of all series, and which row belongs to whom.

    Attributes:
        series: One `FilterState` whose arrays have a leading axis of series.
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
        return self.series.time

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
    """

    def __init__(self, filter: ParticleFilter):
        self.filter = filter
        # A step gives its memory back: the state that goes in cannot be used again.
        self._step: Any = jax.jit(_step, static_argnums=0, donate_argnums=1)
        self._update: Any = jax.jit(_update, static_argnums=0, donate_argnums=1)

    def init(self, key: KeyArray, ids: Ids, inputs: Inputs = None) -> FleetState:
        """Start a filter for each id; no data are seen.

        Args:
            key: A typed key, `jax.random.key(seed)`.
            ids: Numbers or texts, all different.
            inputs: What the model's `initial` is told, with a leading axis of series, or None.
        """
        ids = _distinct(ids)
        return FleetState(self.filter.compiled(_begin)(_keys(key, ids), strongly_typed(inputs)), _rows(ids), key)

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
        ys = self._observations(ys, len(state.row_of))
        is_due = jnp.ones(len(state.row_of), bool) if mask is None else jnp.asarray(mask, bool)
        series, info = self._step(self.filter, state.series, ys, strongly_typed(inputs), is_due)
        return replace(state, series=series), info

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
        rows, size = state.rows(ids), _bucket(len(ids))
        ys = self._observations(ys, len(ids))
        # Rows beyond the last are read as the last one, and what is written there is dropped. Filled up and cut by
        # numpy, since JAX would compile that for each length.
        rows = np.concatenate([rows, np.full(size - len(rows), len(state.row_of), np.int32)])
        fill = lambda leaf: np.concatenate([leaf, np.zeros((size - len(leaf), *np.shape(leaf)[1:]), leaf.dtype)])
        ys, inputs = jax.tree.map(lambda leaf: jnp.asarray(fill(np.asarray(leaf))), (ys, inputs))
        series, info = self._update(self.filter, state.series, jnp.asarray(rows), ys, strongly_typed(inputs))
        return replace(state, series=series), jax.tree.map(lambda leaf: np.asarray(leaf)[: len(ids)], info)

    def add(self, state: FleetState, ids: Ids, inputs: Inputs = None) -> FleetState:
        """Start a filter for each new id, at the end of the fleet."""
        known = state.row_of.keys() & set(_distinct(ids))
        if known:
            raise DataError(f"the fleet has series {sorted(map(repr, known))[:5]} already.")
        new = self.init(state.key, ids, inputs)
        series = jax.tree.map(lambda old, more: jnp.concatenate([old, more]), state.series, new.series)
        return FleetState(series, _rows(state.ids + new.ids), state.key)

    def drop(self, state: FleetState, ids: Ids) -> FleetState:
        """Leave some series out; the others keep their order."""
        gone = set(state.rows(_distinct(ids)).tolist())
        kept = {one: row for one, row in state.row_of.items() if row not in gone}
        rows = np.array([*kept.values()], np.int32)
        return FleetState(jax.tree.map(lambda leaf: leaf[rows], state.series), _rows(tuple(kept)), state.key)

    def one(self, state: FleetState, series_id: Hashable) -> FilterState:
        """Return the state of one series, for `filter.posterior`, `save` or a step of its own."""
        row = state.rows((series_id,))[0]
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
    return keep_where(is_due, new, series), info


def _update(filter: ParticleFilter, series: FilterState, rows: Int[Array, " row"], ys: Observation, inputs: Inputs):
    some = jax.tree.map(lambda leaf: leaf.at[rows].get(mode="clip"), series)
    new, info = jax.vmap(filter.step)(some, ys, inputs)
    return jax.tree.map(lambda leaf, part: leaf.at[rows].set(part, mode="drop"), series, new), info


def _moments(filter: ParticleFilter, series: FilterState) -> Any:
    return jax.vmap(lambda state: mixture_moments(filter, state))(series)


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


def _bucket(size: int) -> int:
    bucket = 1
    while bucket < size:
        bucket *= BUCKET_FACTOR
    return bucket
