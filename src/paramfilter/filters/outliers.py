"""What to do with an observation that lies far outside all forecasts.

By default nothing: it is taken at its word, as the model says. `SkipOutliers` takes single components that are far out
as missing, and says so (`Outcome.OUTLIER_SKIPPED`), so that a slipped decimal point does not cost most particles their
paths. The evidence then leaves them out as well: it no longer compares models, unless both skipped the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

from paramfilter.errors import DataError
from paramfilter.types import Observation


@dataclass(frozen=True)
class SkipOutliers:
    """Take components of y far outside the forecasts as missing.

    Args:
        beyond: How far, in standard deviations of the forecasts. They have the tails of the model, so a heavy-tailed
            one rarely skips anything.
        in_a_row: How often at most; the next one is taken in. A level that has shifted is no outlier.
    """

    beyond: float = 8.0
    in_a_row: int = 3

    def __post_init__(self):
        if not self.beyond > 0 or self.in_a_row < 1:
            raise DataError(
                f"SkipOutliers needs a positive distance and at least one in a row, got {self}; try SkipOutliers()."
            )

    def screen(self, y: Observation, forecasts: Observation, skipped: PyTree) -> tuple[Observation, PyTree]:
        """Return y with outliers as NaN, and how many of each component have been skipped in a row."""
        is_outlier = jax.tree.map(self._is_outlier, y, forecasts, skipped)
        kept = jax.tree.map(lambda leaf, out: jnp.where(out, jnp.nan, leaf), y, is_outlier)
        # What is missing says nothing about a level that may have shifted.
        counts = jax.tree.map(
            lambda leaf, out, count: jnp.where(out, count + 1, jnp.where(jnp.isnan(leaf), count, 0)),
            y,
            is_outlier,
            skipped,
        )
        return kept, counts

    def _is_outlier(self, seen: Any, foretold: Any, count: Any) -> Bool[Array, "..."]:
        # Counts that are all alike have no spread, and yet the next one may differ by one.
        least = 1.0 if not jnp.issubdtype(foretold.dtype, jnp.floating) else 0.0
        foretold = foretold.astype(seen.dtype)
        spread = jnp.std(foretold, axis=0) + least
        is_far = jnp.abs(seen - jnp.mean(foretold, axis=0)) > self.beyond * spread
        return is_far & (count < self.in_a_row)
