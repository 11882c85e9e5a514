"""A target that nearly keeps its velocity, seen by two sensors, one of which is biased.

The state is position and velocity after a unit of time each; q is the intensity of the white noise that accelerates the
target, r the variances of the sensors:

    x' = [[1, 1], [0, 1]] x + N(0, q [[1/3, 1/2], [1/2, 1]]),    y = (position, position + bias) + N(0, diag(r)).

Linear and Gaussian given theta, so a Kalman filter gives the exact likelihood.

>>> import jax
>>> from paramfilter.model import simulate
>>> xs, ys = simulate(jax.random.key(0), tracking(), TRUTH, num_steps=50)
>>> xs.shape, ys.shape
((50, 2), (50, 2))

Y. Bar-Shalom, X. R. Li and T. Kirubarajan, Estimation with Applications to Tracking and Navigation, 2001, Section 6.2.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpyro.distributions as dist

from paramfilter.model import StateSpaceModel

TRUTH = {"q": 0.02, "r": [1.0, 0.3], "bias": 0.5}
DRIFT = ((1.0, 1.0), (0.0, 1.0))
SHAKE = ((1 / 3, 1 / 2), (1 / 2, 1.0))
"""Covariance that unit acceleration noise leaves in position and velocity after a unit of time."""


def tracking() -> StateSpaceModel:
    """Make the tracking model with unknown process noise, sensor noises and bias of the second sensor."""

    def transition(theta, x, inputs):
        return dist.MultivariateNormal(jnp.array(DRIFT) @ x, theta["q"] * jnp.array(SHAKE))

    def observation(theta, x, inputs):
        position = x[0]
        return dist.Normal(jnp.stack([position, position + theta["bias"]]), jnp.sqrt(theta["r"])).to_event(1)

    return StateSpaceModel(
        prior={
            "q": dist.InverseGamma(3.0, 0.1),
            "r": dist.InverseGamma(3.0, 2.0).expand([2]).to_event(1),
            "bias": dist.Normal(0.0, 1.0),
        },
        initial=lambda theta, inputs: dist.Normal(jnp.zeros(2), jnp.array([1.0, 0.5])).to_event(1),
        transition=transition,
        observation=observation,
        name="tracking",
    )
