"""What every resampling part promises: the signature, and the record it returns.

Resampling replaces a weighted population by an (almost) equally weighted one: heavy particles get several
copies, light ones may get none, and the expected number of copies of particle `i` is `N w_i`. A part
returns *whom to copy*, not the copies, because the caller knows what a particle is made of.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import jax
from jaxtyping import Array, Bool, Float, Int

from paramfilter.types import KeyArray


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Resampled:
    """Whom each new particle copies, and the weights that go with the copies.

    `series` axes appear when a caller vmaps.

    Attributes:
        ancestors: `x[ancestors]` is the new population; always in range, and in increasing order.
        log_weights: the new log-weights, always normalised.
        happened: False when the population was left as it is; `ancestors` then counts 0, 1, ..., N - 1.
    """

    ancestors: Int[Array, "*series particle"]
    log_weights: Float[Array, "*series particle"]
    happened: Bool[Array, "*series"]


@dataclass(frozen=True)
class Resampling(ABC):
    """A way to choose ancestors. A part is a value: hashable, compared by its fields, never changed."""

    @abstractmethod
    def resample(self, key: KeyArray, log_weights: Float[Array, " particle"]) -> Resampled:
        """Choose an ancestor for each of as many particles as there are weights.

        Args:
            key: consumed; don't use it again.
            log_weights: unnormalised log-weights. NaN counts as a weight of zero. A particle of weight zero
                is never chosen. If no weight is positive nothing happens: each particle is its own
                ancestor, the weights become equal, and `happened` is False.

        Returns:
            Ancestors, normalised log-weights, and whether anything was resampled.
        """
