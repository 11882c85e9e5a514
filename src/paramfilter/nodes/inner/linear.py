"""Linear and Gaussian observations, for arrays whose last axis is the nodes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float

from paramfilter.inspect.linear_gaussian import LinearModel
from paramfilter.inspect.probe import probe
from paramfilter.model import StateSpaceModel
from paramfilter.nodes.inner.forecast import Forecast, normal_forecast
from paramfilter.nodes.inner.matrices import apply, cholesky, dot, product, product_transposed, solve_lower
from paramfilter.types import Inputs, Theta

NUM_TRIED = 3
"""Typical inputs at which a model is tried."""


def linear_model(
    model: StateSpaceModel, asker: str, otherwise: str, parts: tuple[str, ...] = ("transition", "observation")
) -> LinearModel:
    """Read a model's distributions as matrices, or raise `ModelError` saying which of these parts bends."""
    vector, to_state = ravel_pytree(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), probe(model).x))
    linear = LinearModel(model, vector.size, to_state, asker, otherwise)
    with jax.enable_x64(True):
        num_tried = 1 if model.example_inputs is None else NUM_TRIED
        inputs = [model.inputs_at(np.array(time)) for time in range(num_tried)]
        linear.refuse_nonlinear(model.example_inputs, inputs, parts)
    return linear


def look_of(linear: LinearModel, theta: Theta, inputs: Inputs) -> dict[str, Array]:
    """Return H, d and R of one theta; of R the deviations only, if the components of y are independent."""
    look = linear.observation(theta, inputs)
    noise = look.noise.scale if look.noise.is_diagonal else look.noise.covariance
    return {"H": look.slope, "d": look.intercept, "R": noise}


def absorb(mean: Any, covariance: Any, look: dict[str, Array], y: Float[Array, " obs"]) -> tuple[Any, Any, Any]:
    """Condition N(mean, covariance) on an observation; return mean, covariance and the observation's log density.

    Components are taken in one after the other, in Joseph's form, which stays positive in 32 bits; a missing component
    (NaN) is not taken in. Arrays may have axes between those of the state and that of the nodes.
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


def forecast(mean: Any, covariance: Any, look: dict[str, Array], y: Float[Array, " obs"]) -> Forecast:
    """Return the forecast of each component, for N(mean, covariance) states; arrays may have axes as in `absorb`."""
    noise, rows = look["R"], look["H"]
    variances = noise**2 if noise.ndim < rows.ndim else jnp.stack([noise[i, i] for i in range(len(noise))])
    variances = variances + jnp.stack([dot(row, apply(covariance, row)) for row in rows])
    along = y.reshape(-1, *[1] * (mean.ndim - 1))
    return normal_forecast(apply(rows, mean) + look["d"], variances, along)


def _independent(look: dict[str, Array], y: Any, are_seen: Bool[Array, " obs"], num_axes: int) -> tuple[Any, ...]:
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
