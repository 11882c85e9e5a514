"""STAR, the paper's third example (Section 5.3): two autoregressions joined by a logistic switch.

x' = 0.9 x (1 - G) + 0.1 x G + N(0, 1) with G = 1 / (1 + exp(-gamma (x - c))), y = x + N(0, 0.1^2). The paper states
no prior; ours is weak around the truth's order of magnitude.
"""

from __future__ import annotations

import jax
import numpyro.distributions as dist

from paramfilter.model import StateSpaceModel

TRUTH = {"gamma": 1.0, "c": 3.0}


def star(observation_sd: float = 0.1) -> StateSpaceModel:
    """Make the smooth-transition autoregression of the paper."""

    def transition(theta, x, inputs):
        switch = jax.nn.sigmoid(theta["gamma"] * (x - theta["c"]))
        return dist.Normal(0.9 * x * (1 - switch) + 0.1 * x * switch, 1.0)

    return StateSpaceModel(
        prior={"gamma": dist.Normal(1.0, 1.0), "c": dist.Normal(2.0, 2.0)},
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=transition,
        observation=lambda theta, x, inputs: dist.Normal(x, observation_sd),
        name="star",
    )
