"""Simulated series follow the model they are drawn from."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import paramfilter as pf


def test_noises_of_moves_and_observations_are_independent():
    num_steps = 5000
    xs, ys = pf.simulate(jax.random.key(0), pf.models.linear_gaussian(), {"phi": 0.6}, num_steps + 1)
    xs, ys = np.asarray(xs, np.float64), np.asarray(ys, np.float64)
    moves, errors = xs[1:] - 0.6 * xs[:-1], ys[1:] - xs[1:]
    pairs = [(moves, errors), (moves[1:], moves[:-1]), (errors[1:], errors[:-1]), (moves[1:], errors[:-1])]
    for first, second in pairs:
        assert abs(np.corrcoef(first, second)[0, 1]) < 6 / np.sqrt(num_steps)  # false alarms: 2e-9 each

    model, theta = pf.models.linear_gaussian(), {"phi": jnp.float32(0.6)}
    keys = jax.random.split(jax.random.key(1), (num_steps, 2))

    def following_y(pair):
        x = model.sample_transition(pair[0], theta, jnp.float32(0.0), None)
        return model.sample_observation(pair[1], theta, x, None)

    following = jax.vmap(following_y)(keys)
    variance = np.var(moves) + np.var(errors)
    assert np.var(following) == pytest.approx(variance, rel=6 * np.sqrt(2 * 2 / num_steps))  # two estimates of it


def test_a_model_may_be_used_for_the_first_time_inside_a_compiled_function():
    simulate = lambda key, model: pf.simulate(key, model, {"phi": 0.6}, 4)[1]
    inside = jax.jit(lambda key: simulate(key, pf.models.linear_gaussian()))(jax.random.key(0))
    np.testing.assert_allclose(inside, simulate(jax.random.key(0), pf.models.linear_gaussian()), rtol=1e-6)
