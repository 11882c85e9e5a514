"""Forecasts of linear and Gaussian observations, for arrays whose last axis is the nodes."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from paramfilter.nodes.inner.forecast import Forecast, normal_forecast
from paramfilter.numerics.small_matrices import apply, dot


def forecast(mean: Any, covariance: Any, look: dict[str, Array], y: Float[Array, " obs"]) -> Forecast:
    """Return the forecast of each component, for N(mean, covariance) states; arrays may have axes as in `absorb`."""
    noise, rows = look["R"], look["H"]
    variances = noise**2 if noise.ndim < rows.ndim else jnp.stack([noise[i, i] for i in range(len(noise))])
    variances = variances + jnp.stack([dot(row, apply(covariance, row)) for row in rows])
    along = y.reshape(-1, *[1] * (mean.ndim - 1))
    return normal_forecast(apply(rows, mean) + look["d"], variances, along)
