"""Conjugate beliefs are exact: against the paper's Kalman recursion, batch formulas, and brute-force quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import paramfilter as pf
from paramfilter.model import Transition
from paramfilter.particles import Conjugate
from paramfilter.particles.regressions import KnownVariance, Sums


def absorb_path(belief, xs, ys):
    """Feed a belief with known states, as a particle would."""

    def absorb(statistic, step):
        x_prev, x, y = step
        return belief.update(None, statistic, Transition(x_prev, x, y, None)), None

    path = jax.tree.map(lambda leaf: (leaf[:-1], leaf[1:]), xs)
    return jax.jit(lambda: jax.lax.scan(absorb, belief.init(), (path[0], path[1], ys[1:]))[0])()


def features(x):
    """F(x) of a two-dimensional state with three coefficients: nonlinear in x, linear in theta."""
    return jnp.stack([jnp.array([x[0], 0.0]), jnp.array([jnp.sin(x[1]), x[0]]), jnp.array([0.0, x[1]])])


PRIOR_MEAN = np.array([0.1, 0.2, -0.1])
PRIOR_COVARIANCE = np.array([[0.2, 0.05, 0.0], [0.05, 0.3, 0.02], [0.0, 0.02, 0.1]])
PROCESS_COVARIANCE = np.array([[0.5, 0.2], [0.2, 0.4]])


def matrix_model():
    return pf.StateSpaceModel(
        prior={"beta": dist.MultivariateNormal(jnp.asarray(PRIOR_MEAN), jnp.asarray(PRIOR_COVARIANCE))},
        initial=lambda theta, inputs: dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2)),
        transition=lambda theta, x, inputs: dist.MultivariateNormal(
            features(x).T @ theta["beta"], jnp.asarray(PROCESS_COVARIANCE)
        ),
        observation=lambda theta, x, inputs: dist.Normal(x, 0.3).to_event(1),
    )


def test_matrix_regression_is_the_kalman_update_of_the_paper(float64):
    model = matrix_model()
    xs, ys = pf.simulate(jax.random.key(0), model, {"beta": jnp.array([0.5, 0.3, 0.2])}, 40)
    mean, covariance = PRIOR_MEAN.copy(), PRIOR_COVARIANCE.copy()
    for x_prev, x in zip(np.asarray(xs[:-1]), np.asarray(xs[1:]), strict=True):
        design = np.asarray(features(x_prev))  # F_t of the paper's equation (6), of size p x d
        predicted = design.T @ covariance @ design + PROCESS_COVARIANCE
        gain = covariance @ design @ np.linalg.inv(predicted)
        mean = mean + gain @ (x - design.T @ mean)
        covariance = covariance - gain @ design.T @ covariance
    belief = Conjugate().bind(model)
    found = belief.moments(None, absorb_path(belief, xs, ys), jnp.zeros(3))
    np.testing.assert_allclose(found.mean["beta"], mean, rtol=1e-10)
    np.testing.assert_allclose(found.variance["beta"], np.diagonal(covariance), rtol=1e-10)


def test_draws_and_density_of_a_matrix_regression_agree_with_its_moments(float64):
    model = matrix_model()
    xs, ys = pf.simulate(jax.random.key(0), model, {"beta": jnp.array([0.5, 0.3, 0.2])}, 20)
    belief = Conjugate().bind(model)
    statistic = absorb_path(belief, xs, ys)
    draw = lambda key: belief.sample(key, None, statistic, jnp.zeros(3)).z
    draws = np.asarray(jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(1), 20_000)))
    moments = belief.moments(None, statistic, jnp.zeros(3))
    z = (draws.mean(axis=0) - moments.mean["beta"]) / np.sqrt(moments.variance["beta"] / len(draws))
    assert np.max(np.abs(z)) < 5.5  # false alarms: 1e-7
    covariance = np.cov(draws.T)
    np.testing.assert_allclose(np.diagonal(covariance), moments.variance["beta"], rtol=5.5 * np.sqrt(2 / len(draws)))
    # The density at the mean of a Gaussian is known from its covariance alone.
    expected = stats.multivariate_normal(np.zeros(3), covariance).logpdf(np.zeros(3))
    assert float(belief.log_prob(None, statistic, moments.mean["beta"])) == pytest.approx(expected, abs=0.05)


def test_draws_of_correlated_coefficients_have_their_covariance():
    """With prior N(0, I) the precision is I + F^T F; its Cholesky factor makes the draws standard normal."""
    posterior, design, num_draws = KnownVariance(np.eye(2)), np.array([[3.0, 3.0], [0.0, 1.0]]), 4000
    sums = Sums.start(2).add(jnp.zeros(2), jnp.asarray(design, float), jnp.array(2.0))
    draws = jax.vmap(lambda key: posterior.sample(key, sums))(jax.random.split(jax.random.key(3), num_draws))
    standard = np.asarray(draws, np.float64) @ np.linalg.cholesky(np.eye(2) + design.T @ design)
    errors = (standard.T @ standard / num_draws - np.eye(2)) * np.sqrt(num_draws / (1 + np.eye(2)))
    assert np.max(np.abs(errors)) < 6  # standard errors; false alarms: below 1e-8 each


def test_unknown_process_variance_is_inverse_gamma(float64):
    model = pf.models.linear_gaussian(phi=0.8, q=dist.InverseGamma(3.0, 2.0))
    xs, ys = pf.simulate(jax.random.key(0), model, {"q": 0.7}, 60)
    residuals = np.asarray(xs[1:] - 0.8 * xs[:-1])
    exact = stats.invgamma(3.0 + len(residuals) / 2, scale=2.0 + np.sum(residuals**2) / 2)
    belief = Conjugate().bind(model)
    statistic = absorb_path(belief, xs, ys)
    moments = belief.moments(None, statistic, jnp.zeros(1))
    assert float(moments.mean["q"]) == pytest.approx(exact.mean(), rel=1e-10)
    assert float(moments.variance["q"]) == pytest.approx(exact.var(), rel=1e-10)
    z = jnp.log(jnp.array([0.65]))
    assert float(belief.log_prob(None, statistic, z)) == pytest.approx(exact.logpdf(0.65) + np.log(0.65), abs=1e-9)
    draw = lambda key: jnp.exp(belief.sample(key, None, statistic, jnp.zeros(1)).z[0])
    draws = jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(1), 20_000))
    assert stats.kstest(np.asarray(draws), exact.cdf).pvalue > 1e-7


def test_observation_variance_ignores_missing_observations(float64):
    model = pf.models.linear_gaussian(phi=0.8, r=dist.InverseGamma(3.0, 2.0))
    xs, ys = pf.simulate(jax.random.key(0), model, {"r": 0.5}, 30)
    ys = ys.at[10:20].set(jnp.nan)
    residuals = np.asarray(ys - xs)[1:]
    residuals = residuals[~np.isnan(residuals)]
    exact = stats.invgamma(3.0 + len(residuals) / 2, scale=2.0 + np.sum(residuals**2) / 2)
    belief = Conjugate().bind(model)
    moments = belief.moments(None, absorb_path(belief, xs, ys), jnp.zeros(1))
    assert float(moments.mean["r"]) == pytest.approx(exact.mean(), rel=1e-10)


@pytest.fixture(scope="module")
def coefficient_and_variance():
    """Belief after a known path, and the same posterior by brute-force quadrature over (phi, log q)."""
    with jax.enable_x64(True):
        model = pf.models.linear_gaussian(phi=dist.Normal(0.3, 0.2), q=dist.InverseGamma(3.0, 2.0))
        xs, ys = pf.simulate(jax.random.key(0), model, {"phi": 0.5, "q": 0.7}, 30)
        belief = Conjugate().bind(model)
        statistic = absorb_path(belief, xs, ys)
    phi, log_q = np.meshgrid(np.linspace(-1.0, 1.5, 1201), np.linspace(-3.0, 3.0, 1201), indexing="ij")
    x_prev, x = np.asarray(xs[:-1]), np.asarray(xs[1:])
    squares = np.sum(x**2) - 2 * phi * np.sum(x * x_prev) + phi**2 * np.sum(x_prev**2)
    log_density = stats.norm(0.3, 0.2).logpdf(phi) + stats.invgamma(3.0, scale=2.0).logpdf(np.exp(log_q)) + log_q
    log_density += -0.5 * len(x) * log_q - 0.5 * squares * np.exp(-log_q)
    weights = np.exp(log_density - log_density.max())
    return belief, statistic, phi, np.exp(log_q), weights / weights.sum()


def test_coefficient_and_variance_together_are_exact(coefficient_and_variance, float64):
    belief, statistic, phi, q, weights = coefficient_and_variance
    moments = belief.moments(None, statistic, jnp.zeros(2))
    for name, values in {"phi": phi, "q": q}.items():
        mean = np.sum(weights * values)
        assert float(moments.mean[name]) == pytest.approx(mean, rel=1e-6)
        assert float(moments.variance[name]) == pytest.approx(np.sum(weights * (values - mean) ** 2), rel=1e-4)


def test_coefficient_and_variance_density_is_normalised(coefficient_and_variance, float64):
    belief, statistic, phi, q, weights = coefficient_and_variance
    cell = (phi[1, 0] - phi[0, 0]) * (np.log(q[0, 1]) - np.log(q[0, 0]))
    for row, column in [(700, 560), (650, 600), (800, 500)]:
        z = jnp.array([phi[row, column], np.log(q[row, column])])
        assert float(belief.log_prob(None, statistic, z)) == pytest.approx(
            np.log(weights[row, column] / cell), abs=1e-4
        )


def test_coefficient_and_variance_draws_have_the_right_moments(coefficient_and_variance, float64):
    belief, statistic, phi, q, weights = coefficient_and_variance
    num_draws = 50_000
    draw = lambda key: belief.sample(key, None, statistic, jnp.zeros(2)).z
    draws = np.asarray(jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(2), num_draws)))
    drawn = {"phi": draws[:, 0], "q": np.exp(draws[:, 1])}
    expected = {"phi": phi, "q": q}
    for functions in [("phi",), ("q",), ("phi", "phi"), ("q", "q"), ("phi", "q")]:
        sample = np.prod([drawn[name] for name in functions], axis=0)
        exact = np.sum(weights * np.prod([expected[name] for name in functions], axis=0))
        assert abs(sample.mean() - exact) < 5.5 * sample.std() / np.sqrt(num_draws)  # false alarms: 4e-8 each


def test_independent_noises_become_independent_blocks():
    model = pf.StateSpaceModel(
        prior={
            "a": dist.Normal(0.0, 1.0),
            "q": dist.InverseGamma(3.0 * jnp.ones(2), 1.0),
            "r": dist.InverseGamma(3.0, 1.0),
        },
        initial=lambda theta, inputs: dist.Normal(jnp.zeros(2), 1.0),
        transition=lambda theta, x, inputs: dist.Normal(jnp.stack([theta["a"] * x[0], x[1]]), jnp.sqrt(theta["q"])),
        observation=lambda theta, x, inputs: dist.Normal(x[0] + x[1], jnp.sqrt(theta["r"])),
    )
    kinds = sorted(type(posterior).__name__ for posterior in Conjugate().bind(model).posteriors)
    assert kinds == ["CoefficientsAndVariance", "VarianceOnly", "VarianceOnly"]


def test_correlated_noise_of_the_state_leaves_the_sensor_alone():
    """Position and speed are pushed together by one unknown variance; the sensor's is a block of its own."""
    push = jnp.array([[1 / 3, 1 / 2], [1 / 2, 1.0]])
    model = pf.StateSpaceModel(
        prior={"q": dist.InverseGamma(2.0, 1.0), "r": dist.InverseGamma(2.0, 1.0)},
        initial=lambda theta, inputs: dist.Normal(jnp.zeros(2), 1.0),
        transition=lambda theta, x, inputs: dist.MultivariateNormal(x, theta["q"] * push),
        observation=lambda theta, x, inputs: dist.Normal(x[0], jnp.sqrt(theta["r"])),
    )
    blocks = Conjugate().bind(model).structure.blocks
    assert sorted(block.responses for block in blocks) == [(0, 1), (2,)]


def ar1(prior, transition):
    return pf.StateSpaceModel(
        prior=prior,
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=transition,
        observation=lambda theta, x, inputs: dist.Normal(x, 1.0),
    )


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (pf.models.sin(), "linear in theta"),
        (pf.models.cauchy_ar1(), "Gaussian transition"),
        (pf.models.stochastic_volatility(), "initial distribution"),
        (
            ar1({"phi": dist.Beta(2.0, 2.0)}, lambda theta, x, inputs: dist.Normal(theta["phi"] * x, 1.0)),
            "Beta prior",
        ),
        (
            ar1({"s": dist.InverseGamma(2.0, 2.0)}, lambda theta, x, inputs: dist.Normal(x, theta["s"])),
            "jnp.sqrt(variance)",
        ),
        (
            ar1({"phi": dist.Normal(0.0, 1.0)}, lambda theta, x, inputs: dist.Normal(x, jnp.exp(theta["phi"]))),
            "known",
        ),
    ],
)
def test_what_is_not_conjugate_is_refused_with_the_reason_and_the_cure(model, words):
    with pytest.raises(pf.errors.BeliefError) as caught:
        Conjugate().bind(model)
    assert words in str(caught.value) and "Use Grid()" in str(caught.value)
