"""The Kalman filter, one step at a time: x' = A x + b + N(0, Q), y = H x' + d + N(0, R).

Components of y are absorbed one after the other, whitened first if their noises are correlated, so there is no matrix
to invert. Covariances have Joseph's form, which stays positive in 32 bits.

R. E. Kalman, A new approach to linear filtering and prediction problems, 1960; sequential processing: A. E. Bryson and
Y.-C. Ho, Applied Optimal Control, 1975.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from paramfilter.numerics.small_matrices import apply, cholesky, dot, product, product_transposed, solve_lower


def predicted(mean: Any, covariance: Any, move: Mapping[str, Array]) -> tuple[Any, Any]:
    """Return mean and covariance of the next state."""
    spread = product_transposed(product(move["A"], covariance), move["A"])
    return apply(move["A"], mean) + move["b"], spread + move["Q"]


def absorb(mean: Any, covariance: Any, look: Mapping[str, Array], y: Float[Array, " obs"]) -> tuple[Any, Any, Any]:
    """Return mean and covariance of x given y, and the log density of y.

    Args:
        mean: Of x. All arrays may have further axes, such as that of nodes, after those of a vector or a matrix.
        covariance: Of x.
        look: H, d and R; of R the deviations only, if the components of y are independent.
        y: The observation; a missing component (NaN) changes nothing.
    """
    are_seen = ~jnp.isnan(y)
    targets, rows, deviations, log_density = _independent(look, jnp.nan_to_num(y), are_seen, mean.ndim - 1)
    for target, row, deviation, is_seen in zip(targets, rows, deviations, are_seen, strict=True):
        spread = apply(covariance, row)
        variance = dot(row, spread) + deviation**2
        residual = target - dot(row, mean)
        gain = jnp.where(is_seen, spread / variance, 0.0)
        score = -0.5 * (jnp.log(2 * jnp.pi * variance) + residual**2 / variance)
        log_density += jnp.where(is_seen, score, 0.0)
        mean += gain * residual
        covariance = joseph(covariance, gain, row, deviation)
    return mean, covariance, log_density


def _independent(look: Mapping[str, Array], y: Any, are_seen: Bool[Array, " obs"], num_axes: int) -> tuple[Any, ...]:
    """Return targets, rows of H and deviations of components that are independent, and the log density's constant."""
    along = lambda values, extra=0: values.reshape(*values.shape, *[1] * (num_axes + extra))
    targets, rows, noise = along(y) - look["d"], look["H"], look["R"]
    if noise.ndim == targets.ndim:
        return targets, rows, noise, jnp.zeros_like(targets[0])
    both = along(are_seen[:, None] & are_seen[None])
    lower = cholesky(jnp.where(both, noise, along(jnp.eye(len(y)))))
    targets = solve_lower(lower, jnp.where(along(are_seen), targets, 0.0))
    rows = solve_lower(lower[:, :, None], jnp.where(along(are_seen, 1), rows, 0.0))
    constant = -sum(jnp.log(lower[i, i]) for i in range(len(y)))
    return targets, rows, jnp.ones_like(targets), constant


def joseph(covariance: Any, gain: Any, row: Any, deviation: Any) -> Any:
    """Return (I - K h) P (I - K h)' + K r^2 K': positive semidefinite whatever the rounding."""
    unit = jnp.eye(covariance.shape[0], dtype=gain.dtype).reshape(*covariance.shape[:2], *[1] * (gain.ndim - 1))
    shrink = unit - gain[:, None] * row[None]
    kept = product_transposed(product(shrink, covariance), shrink)
    return kept + gain[:, None] * gain[None] * deviation**2
