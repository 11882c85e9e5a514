"""An epidemic whose transmission follows the season, seen through weekly case counts.

Shares S, I and R = 1 - S - I of a population of 100,000 move from week to week as in an SIRS model,

    S' = S exp(-f) + W R,    I' = I exp(-G) + S (1 - exp(-f)),    f = beta exp(amplitude season) I,

with G and W the rates of recovery and of waning immunity, and the season given as input. The state is x = (log(S / R),
log(I / R)), to which each week adds N(0, 0.1^2): whatever the noise, all shares stay positive. Reported cases are
Poisson with mean 100,000 reporting I.

>>> import jax
>>> from paramfilter.model import simulate
>>> xs, ys = simulate(jax.random.key(0), epidemic(), TRUTH, num_steps=50, inputs=inputs(50))
>>> xs.shape, ys.shape
((50, 2), (50,))

W. Kermack and A. McKendrick, A contribution to the mathematical theory of epidemics, Proc. R. Soc. A 115 (1927); with a
season and covariates: A. King, D. Nguyen and E. Ionides, Statistical inference for partially observed Markov processes
via the R package pomp, J. Stat. Soft. 69 (2016).
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array, Float

from paramfilter.model import StateSpaceModel

TRUTH = {"beta": 1.2, "amplitude": 0.3, "reporting": 0.3}
POPULATION = 100_000
RECOVERY = 0.7
"""G, a week."""
WANING = 0.02
"""W, a week: immunity lasts a year."""
PROCESS_SD = 0.1
WEEKS_OF_A_YEAR = 52


def inputs(num_steps: int) -> Float[Array, " time"]:
    """Return the season of each week: 1 in midwinter, where the series starts, and -1 in midsummer."""
    return jnp.cos(2 * jnp.pi * jnp.arange(num_steps, dtype=jnp.float32) / WEEKS_OF_A_YEAR)


def epidemic() -> StateSpaceModel:
    """Make the seasonal epidemic with unknown transmission, seasonal amplitude and reporting rate."""

    def transition(theta, x, season):
        susceptible, infected, immune = shares(x)
        force = theta["beta"] * jnp.exp(theta["amplitude"] * season) * infected
        infections = -susceptible * jnp.expm1(-force)
        left = jnp.stack([susceptible - infections + WANING * immune, infected * math.exp(-RECOVERY) + infections])
        recovered = (1 - WANING) * immune - infected * math.expm1(-RECOVERY)
        return dist.Normal(jnp.log(left / recovered), PROCESS_SD).to_event(1)

    def observation(theta, x, season):
        return dist.Poisson(POPULATION * theta["reporting"] * shares(x)[1])

    return StateSpaceModel(
        prior={
            "beta": dist.LogNormal(math.log(1.2), 0.3),
            "amplitude": dist.Normal(0.2, 0.2),
            "reporting": dist.Beta(3.0, 6.0),
        },
        initial=lambda theta, season: dist.Normal(jnp.log(jnp.array([1.5, 0.02])), jnp.array([0.3, 0.5])).to_event(1),
        transition=transition,
        observation=observation,
        name="epidemic",
        typical_inputs=inputs(WEEKS_OF_A_YEAR),
    )


def shares(x: Float[Array, " state"]) -> Float[Array, " 3"]:
    """Return the shares of the population that are susceptible, infected and immune."""
    return jax.nn.softmax(jnp.append(x, 0.0))
