"""Two species that grow, compete and are counted: the Gompertz community model in log abundance.

x' = u + B x + N(0, diag(q)), y = x + N(0, diag(r)), all of u, B, q and r unknown: ten numbers in four named arrays. Row
i of B tells how species i answers to the abundance of each. Linear and Gaussian given theta, so a Kalman filter gives
the exact likelihood.

>>> import jax
>>> from paramfilter.model import simulate
>>> xs, ys = simulate(jax.random.key(0), multispecies(), TRUTH, num_steps=50)
>>> xs.shape, ys.shape
((50, 2), (50, 2))

A. Ives, B. Dennis, K. Cottingham and S. Carpenter, Estimating community stability and ecological interactions from
time-series data, Ecological Monographs 73 (2003); E. Holmes, E. Ward and K. Wills, MARSS: multivariate autoregressive
state-space models for analyzing time-series data, The R Journal 4 (2012).
"""

from __future__ import annotations

import jax.numpy as jnp
import numpyro.distributions as dist

from paramfilter.model import StateSpaceModel

NUM_SPECIES = 2
TRUTH = {"u": [1.0, 1.0], "B": [[0.7, -0.2], [-0.1, 0.6]], "q": [0.2, 0.1], "r": [0.1, 0.05]}
"""Both species settle at a log abundance of 2; the eigenvalues of B are 0.8 and 0.5."""


def multispecies() -> StateSpaceModel:
    """Make the two-species community model; q and r are variances."""

    def transition(theta, x, inputs):
        return dist.Normal(theta["u"] + theta["B"] @ x, jnp.sqrt(theta["q"])).to_event(1)

    return StateSpaceModel(
        prior={
            "u": dist.Normal(0.0, 1.0).expand([NUM_SPECIES]).to_event(1),
            "B": dist.Normal(0.5 * jnp.eye(NUM_SPECIES), 0.3).to_event(2),
            "q": dist.InverseGamma(3.0, 0.4).expand([NUM_SPECIES]).to_event(1),
            "r": dist.InverseGamma(3.0, 0.2).expand([NUM_SPECIES]).to_event(1),
        },
        initial=lambda theta, inputs: dist.Normal(jnp.zeros(NUM_SPECIES), 2.0).to_event(1),
        transition=transition,
        observation=lambda theta, x, inputs: dist.Normal(x, jnp.sqrt(theta["r"])).to_event(1),
        name="multispecies",
    )
