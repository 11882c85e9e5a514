"""What holds for every model: it can be simulated, its parameters survive, and its densities are its formulas."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import paramfilter as pf
from paramfilter.inspect.probe import probe
from paramfilter.types import Inputs, Theta

ROUNDING = 1e-5
"""Relative, of a log density in float32 against one in float64."""

NUM_PRIOR_DRAWS = 20


def simulates_finite_series(model: pf.StateSpaceModel, truth: Theta, num_steps: int, inputs: Inputs = None) -> None:
    """Hold a series against the shapes that the probe finds."""
    shapes = probe(model)
    xs, ys = pf.simulate(jax.random.key(0), model, truth, num_steps, inputs)
    assert xs.shape == (num_steps, *shapes.x.shape)
    assert ys.shape == (num_steps, *shapes.y.shape)
    assert np.all(np.isfinite(xs)) and np.all(np.isfinite(ys))


def stays_finite_over_the_prior(model: pf.StateSpaceModel, num_steps: int, inputs: Inputs = None) -> None:
    """Simulate at draws from the prior."""

    def series(key):
        key_theta, key_series = jax.random.split(key)
        theta = model.parameters.constrain(model.parameters.sample(key_theta))
        return pf.simulate(key_series, model, theta, num_steps, inputs)

    xs, ys = jax.jit(jax.vmap(series))(jax.random.split(jax.random.key(0), NUM_PRIOR_DRAWS))
    assert np.all(np.isfinite(xs)) and np.all(np.isfinite(ys))


def survives_coordinates(model: pf.StateSpaceModel, truth: Theta) -> None:
    """Take parameters to coordinates and back."""
    back = model.parameters.constrain(model.parameters.unconstrain(truth))
    for name, value in truth.items():
        np.testing.assert_allclose(back[name], value, rtol=ROUNDING)


def agrees(model: pf.StateSpaceModel, theta: Theta, x_prev, x, y, transition, observation) -> None:
    """Hold the model's log densities against frozen scipy laws."""
    x_prev, x, y = (jnp.asarray(value, jnp.float32) for value in (x_prev, x, y))
    scores = model.transition_log_prob(theta, x_prev, x, None), model.observation_log_prob(theta, x, y, None)
    expected = transition.logpdf(np.asarray(x)), observation.logpdf(np.asarray(y))
    np.testing.assert_allclose(scores, expected, rtol=ROUNDING, atol=ROUNDING)
