"""A hidden regime, calm or high, and a number that is drawn around the regime's mean.

x is 0 or 1 and stays what it is with probability stay_low or stay_high; y ~ N(low + gap x, sd^2). The gap is positive,
so the two regimes cannot swap their names. The state is discrete: a sum over both values gives the exact likelihood.

>>> import jax
>>> from paramfilter.model import simulate
>>> xs, ys = simulate(jax.random.key(0), regime_switching(), TRUTH, num_steps=50)
>>> set(xs.tolist()) <= {0, 1}
True

J. Hamilton, A new approach to the economic analysis of nonstationary time series and the business cycle, Econometrica
57 (1989).
"""

from __future__ import annotations

import jax.numpy as jnp
import numpyro.distributions as dist

from paramfilter.model import StateSpaceModel

TRUTH = {"stay_low": 0.95, "stay_high": 0.9, "low": 0.0, "gap": 2.0, "sd": 1.0}


def regime_switching() -> StateSpaceModel:
    """Make the two-regime model with unknown staying probabilities, means and spread."""

    def transition(theta, x, inputs):
        return dist.Bernoulli(probs=jnp.where(x == 1, theta["stay_high"], 1 - theta["stay_low"]))

    return StateSpaceModel(
        prior={
            "stay_low": dist.Beta(9.0, 1.5),
            "stay_high": dist.Beta(9.0, 1.5),
            "low": dist.Normal(0.0, 1.0),
            "gap": dist.LogNormal(0.5, 0.5),
            "sd": dist.LogNormal(0.0, 0.5),
        },
        initial=lambda theta, inputs: dist.Bernoulli(probs=0.5),
        transition=transition,
        observation=lambda theta, x, inputs: dist.Normal(theta["low"] + theta["gap"] * x, theta["sd"]),
        name="regime_switching",
    )
