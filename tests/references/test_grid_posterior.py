"""The brute-force references against the exact one, and against themselves on finer grids."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from references.dense import scalar_system
from scipy import stats

from paramfilter.errors import ModelError
from paramfilter.model import StateSpaceModel, simulate
from paramfilter.references import Particles, StateGrid, grid_posterior, kalman_grid
from paramfilter.references.bootstrap import systematic
from paramfilter.references.particles import jackknife, particle_answers, smoothed
from paramfilter.references.problem import NodeAnswers, problem_of
from paramfilter.references.theta_grid import Frame


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
    posterior = grid_posterior(model, ys, inputs=inputs, method=StateGrid(num_points=96))
    assert_close(posterior, kalman_grid(model, ys, inputs=inputs))


def test_a_positive_state_is_filtered_in_its_logarithm():
    """exp of an AR(1), seen through its logarithm: the same posterior of theta."""
    positive = ar1(
        initial=lambda theta, inputs: dist.LogNormal(0.0, 1.0),
        transition=lambda theta, x, inputs: dist.LogNormal(theta["phi"] * jnp.log(x), 1.0),
        observation=lambda theta, x, inputs: dist.Normal(jnp.log(x), 0.5),
    )
    ys = simulate(jax.random.key(2), ar1(), {"phi": 0.5}, num_steps=20)[1]
    posterior, exact = grid_posterior(positive, ys, method=StateGrid(num_points=96)), kalman_grid(ar1(), ys)
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


def test_a_grid_too_coarse_for_the_transition_says_so(ys):
    narrow = ar1(transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x, 0.05))
    with pytest.warns(UserWarning, match="transition is narrower than 24 points resolve"):
        grid_posterior(narrow, ys[:5], method=StateGrid(24, low=-4.0, high=4.0), num_nodes=17)


def test_the_particle_estimate_of_the_likelihood_is_unbiased(ys):
    num_repeats = 256
    with jax.enable_x64(True):
        problem = problem_of(ar1(), ys[:20], None, None)
        config = Particles(num_particles=1000, num_repeats=num_repeats)
        repeats = particle_answers(problem, config)(np.array([[0.6]])).repeats[:, 0]
    exact = scalar_system(0.6, 1.0, 0.25, 20).log_likelihood(np.asarray(ys[:20], np.float64))
    ratios = np.exp(repeats - exact)
    # false alarm once in a million: 4.9 standard errors, which are 1.4 per cent: the ratio has an sd of 0.22
    assert abs(np.mean(ratios) - 1.0) < 4.9 * np.std(ratios) / np.sqrt(num_repeats) < 0.1


def test_particles_agree_with_kalman_within_their_standard_errors(ys, exact):
    posterior = grid_posterior(ar1(), ys, method=Particles(num_particles=500, num_repeats=12), num_nodes=25)
    errors = {
        "mean": (posterior.mean()["phi"] - exact.mean()["phi"]) / exact.sd()["phi"],
        "log_sd": np.log(posterior.sd()["phi"] / exact.sd()["phi"]),
        "log_evidence": posterior.log_evidence - exact.log_evidence,
    }
    # a jackknife of 12 repeats has 11 degrees of freedom: false alarm once in a million
    limit = stats.t(11).ppf(1 - 0.5e-6)
    for name, error in errors.items():
        assert abs(error) < limit * getattr(posterior.standard_error, name)
    # and the standard errors are small enough for this to mean something
    assert posterior.standard_error.mean < 0.05
    assert posterior.standard_error.log_sd < 0.05
    assert posterior.standard_error.log_evidence < 0.2


@pytest.mark.slow
def test_particles_take_a_vector_state_and_two_parameters():
    model = StateSpaceModel(
        prior={"phi": dist.Normal(jnp.zeros(2), 0.5).to_event(1)},
        initial=lambda theta, inputs: dist.Normal(jnp.zeros(2), 1.0).to_event(1),
        transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x, 1.0).to_event(1),
        observation=lambda theta, x, inputs: dist.Normal(x, 1.0).to_event(1),
    )
    ys = simulate(jax.random.key(4), model, {"phi": jnp.array([0.8, -0.4])}, num_steps=20)[1]
    exact = kalman_grid(model, ys, num_nodes=33)
    config = Particles(num_particles=300, num_repeats=8, smooth_degree=6)
    posterior = grid_posterior(model, ys, method=config, num_nodes=13)
    limit = stats.t(7).ppf(1 - 0.5e-6)  # false alarm once in a million
    error = np.max(np.abs(posterior.mean()["phi"] - exact.mean()["phi"]) / exact.sd()["phi"])
    assert error < limit * posterior.standard_error.mean
    assert posterior.standard_error.mean < 0.1
    assert abs(posterior.log_evidence - exact.log_evidence) < limit * posterior.standard_error.log_evidence
    assert np.all(np.abs(posterior.state_mean - exact.state_mean) < 0.1 * exact.state_sd)


def noisy_parabolas(num_repeats):
    """Return a frame of 33 nodes and repeated log-likelihoods -u^2 / 2 with noise of sd 0.1."""
    frame = Frame(np.zeros(1), np.eye(1), np.full(1, -6.0), np.full(1, 6.0), 33)
    truth = -0.5 * frame.nodes[:, 0] ** 2
    repeats = truth + 0.1 * np.asarray(jax.random.normal(jax.random.key(7), (num_repeats, 33)), np.float64)
    return frame, truth, NodeAnswers(repeats[0], np.zeros((33, 1)), np.zeros((33, 1)), repeats)


def test_smoothing_takes_noise_out_of_the_bulk():
    frame, truth, answers = noisy_parabolas(2)
    smooth = smoothed(answers, frame, np.zeros(33), degree=4).log_likelihood
    bulk = truth > -2.0
    noise, left = answers.log_likelihood - truth, smooth - truth
    # 5 coefficients for the 20 nodes or so that the fit sees: half of the noise
    assert np.std(left[bulk]) < 0.7 * np.std(noise[bulk])
    assert np.array_equal(smooth[truth < -14.0], answers.log_likelihood[truth < -14.0])
    assert smoothed(answers, frame, np.zeros(33), degree=None) is answers


def test_one_repeat_has_no_standard_error():
    frame, _, answers = noisy_parabolas(1)
    assert jackknife(answers, frame, np.zeros(33), None, lambda part: pytest.fail("not needed")) is None


def test_a_vector_state_is_refused_by_the_state_grid_with_the_cure(ys):
    model = ar1(
        initial=lambda theta, inputs: dist.Normal(jnp.zeros(2), 1.0),
        transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x, 1.0),
        observation=lambda theta, x, inputs: dist.Normal(x[0], 1.0),
    )
    with pytest.raises(ModelError, match=r"state has 2 components; use .*method=Particles\(\)"):
        grid_posterior(model, ys)


def test_a_discrete_state_is_refused_by_the_state_grid_with_the_cure(ys):
    model = ar1(
        initial=lambda theta, inputs: dist.Poisson(3.0),
        transition=lambda theta, x, inputs: dist.Poisson(1.0 + jnp.exp(theta["phi"]) * x),
    )
    with pytest.raises(ModelError, match=r"discrete; use method=Particles\(\)"):
        grid_posterior(model, ys)


def test_three_parameters_are_refused_with_the_cure(ys):
    with pytest.raises(ModelError, match="one or two unconstrained coordinates; this prior has 3"):
        grid_posterior(ar1(prior={"phi": dist.Normal(jnp.zeros(3), 1.0).to_event(1)}), ys)


def test_impossible_settings_are_refused():
    with pytest.raises(ModelError, match="low < high"):
        StateGrid(low=1.0, high=0.0)
    with pytest.raises(ModelError, match="at least 2 points"):
        StateGrid(num_points=1)
    with pytest.raises(ModelError, match="at least 2 particles"):
        Particles(num_particles=1)


def test_systematic_offspring_are_within_one_of_their_share_and_none_for_zero_weight():
    keys = jax.random.split(jax.random.key(5), 50)
    uneven = jnp.asarray(np.exp(4.0 * np.sin(np.arange(50)[:, None] + np.arange(64) ** 2)))
    weights = jnp.where(uneven > 0.1, uneven, 0.0)
    weights = weights / jnp.sum(weights, axis=1, keepdims=True)
    ancestors = jax.jit(jax.vmap(systematic))(keys, weights)
    counts = jax.vmap(lambda row: jnp.bincount(row, length=64))(ancestors)
    assert jnp.all(jnp.abs(counts - 64 * weights) < 1.0 + 1e-4)
    assert jnp.all(counts[weights == 0.0] == 0)
