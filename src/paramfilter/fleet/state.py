"""Which series a fleet has, and the state of each."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Shaped

from paramfilter.arguments import kind_of, require_kind
from paramfilter.errors import DataError
from paramfilter.types import KeyArray

Ids = Sequence[Hashable] | np.ndarray
"""Numbers or texts; also an array of them."""


@functools.partial(jax.tree_util.register_dataclass, data_fields=["series", "key"], meta_fields=["row_of"])
@dataclass(frozen=True, eq=False)
class FleetState:
    """The states of all series, and which row belongs to whom: a pytree, so that one can wait for it or move it.

    Attributes:
        series: One state whose arrays have a leading axis of series, with spare rows at the end.
        row_of: The row of each id, in the order of the rows.
        key: From which the keys of new series come.
    """

    series: Any
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
            raise DataError(
                f"the fleet has no series {unknown[:5]!r}; use fleet.add for new ones, and state.ids for those it has."
            )
        return np.array([self.row_of[one] for one in ids], np.int32)


def rows_of(ids: tuple[Hashable, ...]) -> dict[Hashable, int]:
    """Give each id a row, in their order."""
    return {one: row for row, one in enumerate(ids)}


def keys_for(key: KeyArray, ids: tuple[Hashable, ...]) -> Shaped[Array, " series"]:
    """Return a key for each series that depends on its id alone."""
    digests = b"".join(hashlib.blake2b(repr(one).encode(), digest_size=8).digest() for one in ids)
    numbers = jnp.asarray(np.frombuffer(digests, "<u4").reshape(-1, 2))
    return jax.vmap(lambda pair: jax.random.fold_in(jax.random.fold_in(key, pair[0]), pair[1]))(numbers)


def distinct(ids: Ids) -> tuple[Hashable, ...]:
    """Return ids as a tuple, or refuse them; numbers of numpy become Python's."""
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise DataError(
            f"ids must be a list of numbers or texts, got {kind_of(ids)}. Put brackets around one: [{ids!r}]."
        )
    ids = tuple(one.item() if isinstance(one, np.generic) else one for one in ids)
    if not ids:
        raise DataError(
            "ids is empty: a fleet or a batch needs at least one series. Leave the call out if none is due."
        )
    if not all(isinstance(one, Hashable) for one in ids):
        raise DataError("an id must be a number or a text, and one of these is a list or an array; give a flat list.")
    if len(set(ids)) != len(ids):
        twice = next(one for place, one in enumerate(ids) if one in ids[:place])
        raise DataError(
            f"the series {twice!r} is named twice; each has one row and one observation at a time. Name each once, "
            "and give its next observation in the next call."
        )
    return ids


def text_of(ids: tuple[Hashable, ...]) -> str:
    """Return ids as JSON, or refuse what would not come back the same."""
    strange = [one for one in ids if not isinstance(one, str | int | float)]
    if strange:
        raise DataError(f"only series whose ids are numbers or texts can be saved, and {strange[0]!r} is neither.")
    return json.dumps(ids)


def ids_of(text: str) -> tuple[Hashable, ...]:
    """Return the ids that `text_of` wrote."""
    return tuple(json.loads(text))


def require_fresh(state: FleetState) -> None:
    """Refuse anything but the state of a fleet, and a state whose memory an earlier call has freed."""
    require_kind(state, FleetState, "state", "Begin with state = fleet.init(jax.random.key(0), ids).")
    if isinstance(state.series.time, jax.Array) and state.series.time.is_deleted():
        raise DataError(
            "this state was used up: step, update and run of a fleet free its memory. Continue with the "
            "state that the call returned, as in state, info = fleet.step(state, ys)."
        )
