"""Resample only when the weights have become uneven.

Resampling throws information away: copies are no longer different, and each round of it shortens the common
ancestry of the population. While the weights are still even there is nothing to gain, so carry them along
and resample when the effective sample size falls below a fraction of N (Liu and Chen, 1995, "Blind
deconvolution via sequential imputations").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from paramfilter.errors import ParamfilterError
from paramfilter.numerics.weights import effective_sample_size, normalise
from paramfilter.resampling.base import Resampled, Resampling
from paramfilter.types import KeyArray


@final
@dataclass(frozen=True)
class WhenEssBelow(Resampling):
    """Resample by `scheme` if the effective sample size is below `fraction * N`; otherwise leave all alone.

    Left alone means: ancestors 0, 1, ..., N - 1, the same weights (normalised), `happened` False. A dead
    population has effective sample size 0 and goes to `scheme`, which leaves it alone.

    Outside `vmap` the work of resampling is skipped when it isn't needed; under `vmap` both answers are
    computed and one is kept.

    Args:
        fraction: in (0, 1]. One half is customary; 1 resamples unless all weights are equal.
        scheme: how to resample.

    >>> import jax, jax.numpy as jnp
    >>> from paramfilter.resampling import Systematic
    >>> resample = jax.jit(WhenEssBelow(0.5, Systematic()).resample)
    >>> bool(resample(jax.random.key(0), jnp.log(jnp.array([0.2, 0.3, 0.2, 0.3]))).happened)
    False
    >>> bool(resample(jax.random.key(0), jnp.log(jnp.array([0.9, 0.1, 0.0, 0.0]))).happened)
    True
    """

    fraction: float
    scheme: Resampling

    def __post_init__(self) -> None:
        if not 0.0 < self.fraction <= 1.0:  # refuses NaN too
            raise ParamfilterError(
                f"WhenEssBelow needs a fraction of the particles, above 0 and at most 1, got {self.fraction};"
                " to resample when the effective sample size is below half of them write"
                " WhenEssBelow(0.5, Systematic())."
            )
        if not isinstance(self.scheme, Resampling):
            raise ParamfilterError(
                f"WhenEssBelow needs a resampling scheme, got {self.scheme!r};"
                " give it an instance, such as WhenEssBelow(0.5, Systematic())."
            )

    def resample(self, key: KeyArray, log_weights: Float[Array, " particle"]) -> Resampled:
        num_particles = log_weights.shape[0]

        def leave() -> Resampled:
            return Resampled(
                ancestors=jnp.arange(num_particles, dtype=jnp.int32),
                log_weights=normalise(log_weights)[0],
                happened=jnp.asarray(False),
            )

        is_uneven: Bool[Array, ""] = effective_sample_size(log_weights) < self.fraction * num_particles
        return lax.cond(is_uneven, lambda: self.scheme.resample(key, log_weights), leave)
