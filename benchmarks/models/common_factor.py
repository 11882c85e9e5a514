"""Two series that follow one factor: x' = phi x + N(0, q), y = (x, shift + loading x) + N(0, diag(r)).

Linear and Gaussian given the six parameters, so a Kalman filter gives the exact likelihood.

>>> import jax
>>> from paramfilter.model import simulate
>>> xs, ys = simulate(jax.random.key(0), common_factor(), TRUTH, num_steps=50)
>>> xs.shape, ys.shape
((50,), (50, 2))

J. Stock and M. Watson, New indexes of coincident and leading economic indicators, NBER Macroeconomics Annual 4 (1989).
"""

from __future__ import annotations

import jax.numpy as jnp
import numpyro.distributions as dist

from paramfilter.model import StateSpaceModel

TRUTH = {"phi": 0.8, "q": 0.5, "loading": -0.7, "shift": 1.0, "r": [0.4, 0.8]}


def common_factor() -> StateSpaceModel:
    """Make the two series with unknown dynamics, loading, shift and variances q and r."""

    def observation(theta, x, inputs):
        return dist.Normal(jnp.stack([x, theta["shift"] + theta["loading"] * x]), jnp.sqrt(theta["r"])).to_event(1)

    return StateSpaceModel(
        prior={
            "phi": dist.Normal(0.5, 0.4),
            "q": dist.InverseGamma(3.0, 2.0),
            "loading": dist.Normal(0.0, 1.0),
            "shift": dist.Normal(0.0, 1.0),
            "r": dist.InverseGamma(3.0, 2.0).expand([2]).to_event(1),
        },
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x, jnp.sqrt(theta["q"])),
        observation=observation,
        name="common_factor",
    )
