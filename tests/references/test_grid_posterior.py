"""The brute-force references against the exact one, and against themselves on finer grids."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

from paramfilter.errors import ModelError
from paramfilter.model import StateSpaceModel, simulate
from paramfilter.references import grid_posterior, kalman_grid
from paramfilter.references.bootstrap import systematic


def ar1(**changes) -> StateSpaceModel:
    parts = dict(
        prior={"phi": dist.Normal(0.0, 0.5)},
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x, 1.0),
        observation=lambda theta, x, inputs: dist.Normal(x, 0.5),
    )
    return StateSpaceModel(**(parts | changes))


@pytest.fixture(scope="module")
def ys():
    return simulate(jax.random.key(0), ar1(), {"phi": 0.8}, num_steps=50)[1]


@pytest.fixture(scope="module")
def exact(ys):
    return kalman_grid(ar1(), ys)


def assert_close(posterior, exact, tolerance=1e-6):
    """Compare means in posterior sds, log sds, evidence in nats, and the last state in its sds."""
    for name, sd in exact.sd().items():
        assert abs(posterior.mean()[name] - exact.mean()[name]) < tolerance * sd
        assert abs(np.log(posterior.sd()[name] / sd)) < tolerance
        assert abs(posterior.quantile(0.95)[name] - exact.quantile(0.95)[name]) < tolerance * sd
    assert abs(posterior.log_evidence - exact.log_evidence) < tolerance
    assert abs(posterior.state_mean - exact.state_mean) < tolerance * exact.state_sd
    assert abs(np.log(posterior.state_sd / exact.state_sd)) < tolerance


def test_state_grid_agrees_with_kalman_on_ar1(ys, exact):
    assert_close(grid_posterior(ar1(), ys), exact)


def test_state_grid_agrees_with_kalman_with_inputs_gaps_and_an_unknown_noise():
    model = ar1(
        prior={"r": dist.LogNormal(-1.0, 0.5)},
        initial=lambda theta, inputs: dist.Normal(0.0, 1e-3),
        transition=lambda theta, x, inputs: dist.Normal(0.9 * x + inputs, 0.5),
        observation=lambda theta, x, inputs: dist.Normal(x, jnp.sqrt(theta["r"])),
    )
    inputs = jnp.sin(jnp.arange(30.0))
    ys = simulate(jax.random.key(1), model, {"r": 0.2}, num_steps=30, inputs=inputs)[1].at[5:9].set(jnp.nan)
    posterior = grid_posterior(model, ys, inputs=inputs)
    assert_close(posterior, kalman_grid(model, ys, inputs=inputs))


def test_a_positive_state_is_filtered_in_its_logarithm():
    """exp of an AR(1), seen through its logarithm: the same posterior of theta."""
    positive = ar1(
        initial=lambda theta, inputs: dist.LogNormal(0.0, 1.0),
        transition=lambda theta, x, inputs: dist.LogNormal(theta["phi"] * jnp.log(x), 1.0),
        observation=lambda theta, x, inputs: dist.Normal(jnp.log(x), 0.5),
    )
    ys = simulate(jax.random.key(2), ar1(), {"phi": 0.5}, num_steps=20)[1]
    posterior, exact = grid_posterior(positive, ys), kalman_grid(ar1(), ys)
    assert abs(posterior.mean()["phi"] - exact.mean()["phi"]) < 1e-6 * exact.sd()["phi"]
    assert abs(posterior.log_evidence - exact.log_evidence) < 1e-6
    assert posterior.state_mean > 0.0


@pytest.mark.slow
def test_halving_both_spacings_changes_nothing_on_sin():
    model = StateSpaceModel(
        prior={"theta": dist.Normal(0.0, 0.2)},
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, inputs: dist.Normal(jnp.sin(theta["theta"] * x), 1.0),
        observation=lambda theta, x, inputs: dist.Normal(x, 0.1),
    )
    ys = simulate(jax.random.key(3), model, {"theta": 0.7}, num_steps=100)[1]
    accuracy = grid_posterior(model, ys, check=True).accuracy
    assert max(accuracy.mean, accuracy.log_sd, accuracy.log_evidence) < 1e-8


@pytest.mark.slow
def test_a_transition_too_narrow_for_any_grid_is_refused_with_the_cure(ys):
    """A transition of sd 0.003 between states that are seen with an sd of 1/2: no grid of 2,048 points resolves it."""
    narrow = ar1(transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x, 0.003))
    with pytest.raises(ModelError, match=r"needs more than 2048 points\. Use references\.pmmh"):
        grid_posterior(narrow, ys[:5], num_nodes=17)


def test_a_vector_state_is_refused_by_the_state_grid_with_the_cure(ys):
    model = ar1(
        initial=lambda theta, inputs: dist.Normal(jnp.zeros(2), 1.0),
        transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x, 1.0),
        observation=lambda theta, x, inputs: dist.Normal(x[0], 1.0),
    )
    with pytest.raises(ModelError, match=r"state has 2 components; use references\.pmmh"):
        grid_posterior(model, ys)


def test_a_discrete_state_is_refused_by_the_state_grid_with_the_cure(ys):
    model = ar1(
        initial=lambda theta, inputs: dist.Poisson(3.0),
        transition=lambda theta, x, inputs: dist.Poisson(1.0 + jnp.exp(theta["phi"]) * x),
    )
    with pytest.raises(ModelError, match=r"discrete; use references\.pmmh"):
        grid_posterior(model, ys)


def test_three_parameters_are_refused_with_the_cure(ys):
    with pytest.raises(ModelError, match="one or two unconstrained coordinates; this prior has 3"):
        grid_posterior(ar1(prior={"phi": dist.Normal(jnp.zeros(3), 1.0).to_event(1)}), ys)


def test_systematic_offspring_are_within_one_of_their_share_and_none_for_zero_weight():
    keys = jax.random.split(jax.random.key(5), 50)
    uneven = jnp.asarray(np.exp(4.0 * np.sin(np.arange(50)[:, None] + np.arange(64) ** 2)))
    weights = jnp.where(uneven > 0.1, uneven, 0.0)
    weights = weights / jnp.sum(weights, axis=1, keepdims=True)
    ancestors = jax.jit(jax.vmap(systematic))(keys, weights)
    counts = jax.vmap(lambda row: jnp.bincount(row, length=64))(ancestors)
    assert jnp.all(jnp.abs(counts - 64 * weights) < 1.0 + 1e-4)
    assert jnp.all(counts[weights == 0.0] == 0)
