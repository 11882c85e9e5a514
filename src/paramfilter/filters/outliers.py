"""What to do with an observation that lies far outside all forecasts.

By default nothing: it is taken at its word, as the model says. `OutlierGate` takes single components that are far out
as missing, and says so (`Outcome.OUTLIER_SKIPPED`), so that a slipped decimal point does not cost most particles their
paths. The evidence then leaves them out as well: it no longer compares models, unless both skipped the same.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

from paramfilter.arguments import require_kind
from paramfilter.errors import DataError
from paramfilter.types import Observation


@dataclass(frozen=True)
class OutlierGate:
    """Take components of y far outside the forecasts as missing.

    Args:
        num_sd: The limit, in standard deviations of the forecasts. They have the tails of the model, so a heavy-tailed
            one rarely skips anything.
        max_consecutive: How often at most; the next one is taken in. A level that has shifted is no outlier.
    """

    num_sd: float = 8.0
    max_consecutive: int = 3

    def __post_init__(self):
        if not self.num_sd > 0 or self.max_consecutive < 1:
            raise DataError(
                f"OutlierGate needs a positive distance and at least one in a row, got {self}; try OutlierGate()."
            )

    def screen(
        self, y: Observation, mean: Observation, spread: Observation, skipped: PyTree
    ) -> tuple[Observation, PyTree]:
        """Return y with outliers as NaN, and how many of each component have been skipped in a row.

        Args:
            y: The observation.
            mean: Of its forecasts.
            spread: Their standard deviation.
            skipped: How many have been skipped in a row so far.
        """
        is_outlier = jax.tree.map(self._is_outlier, y, mean, spread, skipped)
        kept = jax.tree.map(lambda leaf, out: jnp.where(out, jnp.nan, leaf), y, is_outlier)
        # What is missing says nothing about a level that may have shifted.
        counts = jax.tree.map(
            lambda leaf, out, count: jnp.where(out, count + 1, jnp.where(jnp.isnan(leaf), count, 0)),
            y,
            is_outlier,
            skipped,
        )
        return kept, counts

    def _is_outlier(self, seen: Any, mean: Any, spread: Any, count: Any) -> Bool[Array, "..."]:
        is_far = (jnp.abs(seen - mean) > self.num_sd * spread) & jnp.isfinite(seen)
        return is_far & (count < self.max_consecutive)


def screened(
    outliers: OutlierGate | None, y: Observation, forecasts: Observation, skipped: PyTree
) -> tuple[Observation, PyTree]:
    """Return y with outliers as NaN, and how many have been skipped in a row."""
    if outliers is None:
        return y, skipped
    return outliers.screen(y, *mean_and_spread(forecasts), skipped)


def require_outliers(outliers: Any) -> None:
    """Refuse what is neither None nor a `OutlierGate`."""
    if outliers is not None:
        require_kind(outliers, OutlierGate, "outliers", "Pass outliers=OutlierGate(), or None.")


def mean_and_spread(forecasts: Observation) -> tuple[Observation, Observation]:
    """Return mean and standard deviation of forecasts, which have a leading axis of draws."""
    numbers = jax.tree.map(lambda leaf: leaf.astype(jnp.result_type(float)), forecasts)
    spread = jax.tree.map(lambda leaf: jnp.std(leaf, axis=0), numbers)
    return jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), numbers), widened(spread, forecasts)


def widened(spread: Observation, like: PyTree) -> Observation:
    """Add one to the spread of whole numbers: counts may be all alike, and yet the next one may differ by one."""
    is_whole = lambda leaf: not jnp.issubdtype(leaf.dtype, jnp.floating)
    return jax.tree.map(lambda sd, leaf: sd + is_whole(leaf), spread, like)


def has_grown(counts: PyTree, before: PyTree) -> Bool[Array, ""]:
    """Tell whether some component was skipped."""
    pairs = zip(jax.tree.leaves(counts), jax.tree.leaves(before), strict=True)
    return functools.reduce(jnp.logical_or, [jnp.any(new > old) for new, old in pairs], jnp.bool_(False))
