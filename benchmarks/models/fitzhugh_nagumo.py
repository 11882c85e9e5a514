"""A neuron that fires: the FitzHugh-Nagumo equations with noise, of which the voltage is measured.

With steps of 0.3 in time, v' = v + 0.3 (v - v^3 / 3 - w + current) + N(0, sigma^2), w' = w + 0.3 rate (v + shift - 0.8
w) + N(0, 0.02^2), and y = v + N(0, 0.3^2). The recovery w is never seen.

>>> import jax
>>> from paramfilter.model import simulate
>>> xs, ys = simulate(jax.random.key(0), fitzhugh_nagumo(), TRUTH, num_steps=50)
>>> xs.shape, ys.shape
((50, 2), (50,))

R. FitzHugh, Impulses and physiological states in theoretical models of nerve membrane, Biophys. J. 1 (1961); J. Nagumo,
S. Arimoto and S. Yoshizawa, An active pulse transmission line simulating nerve axon, Proc. IRE 50 (1962).
"""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpyro.distributions as dist

from paramfilter.model import StateSpaceModel

TRUTH = {"current": 0.5, "rate": 0.08, "shift": 0.7, "sigma": 0.1}
TIME_STEP = 0.3
RECOVERY = 0.8
RECOVERY_SD = 0.02
OBSERVATION_SD = 0.3


def fitzhugh_nagumo() -> StateSpaceModel:
    """Make the noisy neuron with unknown current, rate and shift of the recovery, and noise of the voltage."""

    def transition(theta, x, inputs):
        v, w = x
        voltage = v + TIME_STEP * (v - v**3 / 3 - w + theta["current"])
        recovery = w + TIME_STEP * theta["rate"] * (v + theta["shift"] - RECOVERY * w)
        spread = jnp.stack([theta["sigma"], jnp.asarray(RECOVERY_SD)])
        return dist.Normal(jnp.stack([voltage, recovery]), spread).to_event(1)

    return StateSpaceModel(
        prior={
            "current": dist.Normal(0.5, 0.3),
            "rate": dist.LogNormal(math.log(0.1), 0.5),
            "shift": dist.Normal(0.7, 0.3),
            "sigma": dist.LogNormal(math.log(0.1), 0.5),
        },
        initial=lambda theta, inputs: dist.Normal(jnp.array([-1.0, -0.5]), 0.3).to_event(1),
        transition=transition,
        observation=lambda theta, x, inputs: dist.Normal(x[0], OBSERVATION_SD),
        name="fitzhugh_nagumo",
    )
