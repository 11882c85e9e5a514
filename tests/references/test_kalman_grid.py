"""The exact reference against dense Gaussians, closed forms and itself on a finer grid."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from references.dense import LinearSystem, scalar_system
from scipy import stats
from scipy.integrate import quad_vec
from scipy.special import logsumexp

from paramfilter.errors import DataError, ModelError
from paramfilter.model import StateSpaceModel, simulate
from paramfilter.references import kalman_grid

OBSERVATION_SD = 0.5


def ar1(**changes) -> StateSpaceModel:
    parts = dict(
        prior={"phi": dist.Normal(0.3, 0.3)},
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x, 1.0),
        observation=lambda theta, x, inputs: dist.Normal(x, OBSERVATION_SD),
    )
    return StateSpaceModel(**(parts | changes))


@pytest.fixture(scope="module")
def ys():
    return simulate(jax.random.key(0), ar1(), {"phi": 0.8}, num_steps=10)[1]


@pytest.fixture(scope="module")
def ar1_posterior(ys):
    return kalman_grid(ar1(), ys, check=True)


def expectations(log_joint, functions, low, high):
    """Return the log integral of exp(log_joint), and the mean of each function, by SciPy's adaptive quadrature."""
    top = max(log_joint(theta) for theta in np.linspace(low, high, 51))

    def integrand(theta):
        return np.exp(log_joint(theta) - top) * np.array([1.0, *(function(theta) for function in functions)])

    mass, *moments = quad_vec(integrand, low, high, epsabs=0, epsrel=1e-11)[0]
    return top + np.log(mass), np.array(moments) / mass


def test_ar1_agrees_with_the_dense_gaussian_and_adaptive_quadrature(ys, ar1_posterior):
    observed = np.asarray(ys, np.float64)

    def system(phi):
        return scalar_system(phi, 1.0, OBSERVATION_SD**2, 10)

    def log_joint(phi):
        return system(phi).log_likelihood(observed) + stats.norm(0.3, 0.3).logpdf(phi)

    def state_mean(phi):
        return system(phi).last_state(observed)[0][0]

    def state_square(phi):
        mean, covariance = system(phi).last_state(observed)
        return mean[0] ** 2 + covariance[0, 0]

    functions = [lambda phi: phi, lambda phi: phi**2, state_mean, state_square]
    log_evidence, (mean, square, x_mean, x_square) = expectations(log_joint, functions, -2.0, 2.5)
    assert ar1_posterior.log_evidence == pytest.approx(log_evidence, abs=1e-9)
    assert ar1_posterior.mean()["phi"] == pytest.approx(mean, abs=1e-9)
    assert ar1_posterior.sd()["phi"] == pytest.approx(np.sqrt(square - mean**2), abs=1e-9)
    assert ar1_posterior.state_mean == pytest.approx(x_mean, abs=1e-9)
    assert ar1_posterior.state_sd == pytest.approx(np.sqrt(x_square - x_mean**2), abs=1e-9)


def test_halving_the_spacing_changes_nothing(ys, ar1_posterior):
    accuracy = ar1_posterior.accuracy
    assert max(accuracy.mean, accuracy.log_sd, accuracy.log_evidence) < 1e-12
    fine = kalman_grid(ar1(), ys, num_nodes=257)
    sd = fine.sd()["phi"]
    assert abs(fine.mean()["phi"] - ar1_posterior.mean()["phi"]) < 1e-8 * sd
    assert abs(fine.quantile(0.9)["phi"] - ar1_posterior.quantile(0.9)["phi"]) < 1e-8 * sd
    assert fine.accuracy is None


def test_answers_are_float64_although_the_caller_is_not(ys, ar1_posterior):
    assert ys.dtype == jnp.float32
    assert ar1_posterior.z.dtype == np.float64
    assert ar1_posterior.mean()["phi"].dtype == np.float64
    assert ar1_posterior.state_mean.dtype == np.float64


def test_unknown_variance_agrees_with_the_conjugate_posterior():
    """x and y with variances in a fixed ratio: y_t is iid N(0, 2 s), and InverseGamma is conjugate."""
    model = ar1(
        prior={"s": dist.InverseGamma(3.0, 2.0)},
        transition=lambda theta, x, inputs: dist.Normal(0.0 * x, jnp.sqrt(theta["s"])),
        observation=lambda theta, x, inputs: dist.Normal(x, jnp.sqrt(theta["s"])),
    )
    ys = np.asarray(simulate(jax.random.key(1), model, {"s": 0.7}, num_steps=12)[1], np.float64)
    posterior = kalman_grid(model, ys)
    shape, rate = 3.0 + 6.0, 2.0 + np.sum(ys**2) / 4.0
    exact = stats.invgamma(shape, scale=rate)
    marginal = stats.multivariate_t(np.zeros(12), 2 * 2.0 / 3.0 * np.eye(12), df=6.0)
    assert posterior.mean()["s"] == pytest.approx(exact.mean(), rel=1e-9)
    assert posterior.sd()["s"] == pytest.approx(exact.std(), rel=1e-8)
    assert posterior.log_evidence == pytest.approx(marginal.logpdf(ys), abs=1e-9)
    shares = np.array([1e-4, 0.1, 0.5, 0.9, 0.9999])
    np.testing.assert_allclose(posterior.quantile(shares)["s"], exact.ppf(shares), rtol=1e-7)
    num_draws = 20_000
    draws = posterior.sample(jax.random.key(2), num_draws)["s"]
    # Kolmogorov's D exceeds 2.7 / sqrt(n) once in a million
    assert stats.kstest(draws, exact.cdf).statistic < 2.7 / np.sqrt(num_draws)


def test_missing_components_are_rows_left_out_and_inputs_move_the_matrices():
    slope, noise = np.array([[0.0, 0.4], [-0.3, 0.5]]), np.array([[1.0, 0.4], [0.4, 0.5]])
    start, look_noise = np.array([[0.5, 0.1], [0.1, 0.8]]), np.array([[0.3, 0.1], [0.1, 0.2]])
    model = StateSpaceModel(
        prior={"phi": dist.Uniform(-1.0, 1.0)},
        initial=lambda theta, inputs: dist.MultivariateNormal(inputs["mean"], start),
        transition=lambda theta, x, inputs: dist.MultivariateNormal(
            (jnp.array(slope) + jnp.diag(jnp.array([1.0, 0.0])) * theta["phi"]) @ x + inputs["push"], noise
        ),
        observation=lambda theta, x, inputs: dist.MultivariateNormal(inputs["gain"] * x, look_noise),
    )
    time = jnp.arange(8.0)
    inputs = {"push": jnp.stack([jnp.sin(time), jnp.cos(time)], axis=1), "gain": 1.0 + 0.1 * time}
    initial_inputs = {"mean": jnp.array([1.0, -1.0])}
    ys = simulate(jax.random.key(3), model, {"phi": 0.6}, 8, inputs=inputs, initial_inputs=initial_inputs)[1]
    ys = ys.at[2, 0].set(jnp.nan).at[4].set(jnp.nan).at[7, 1].set(jnp.nan)
    posterior = kalman_grid(model, ys, inputs=inputs, initial_inputs=initial_inputs)
    observed, push, gain = (np.asarray(part, np.float64) for part in (ys, inputs["push"], inputs["gain"]))

    def system(phi):
        matrix = slope + np.diag([phi, 0.0])
        return LinearSystem(
            matrix, push, noise, gain[:, None, None] * np.eye(2), look_noise, np.array([1.0, -1.0]), start
        )

    def log_joint(phi):
        return system(phi).log_likelihood(observed) - np.log(2.0)

    functions = [lambda phi: phi, lambda phi: system(phi).last_state(observed)[0][1]]
    log_evidence, (mean, x_mean) = expectations(log_joint, functions, -1.0, 1.0)
    # MultivariateNormal factorises covariances of the caller's float32 arrays
    assert posterior.log_evidence == pytest.approx(log_evidence, abs=1e-6)
    assert posterior.mean()["phi"] == pytest.approx(mean, abs=1e-7)
    assert posterior.state_mean[1] == pytest.approx(x_mean, abs=1e-7)


def test_two_parameters_agree_with_a_dense_gaussian_on_gauss_legendre_nodes(ys):
    model = ar1(
        prior={"phi": dist.Normal(0.0, 0.5), "q": dist.LogNormal(0.0, 0.5)},
        transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x, jnp.sqrt(theta["q"])),
    )
    posterior = kalman_grid(model, ys)
    observed = np.asarray(ys, np.float64)

    def log_joint(phi, log_q):
        """Vectorised over nodes: y = phi-powers times noises, one dense covariance each."""
        lag = np.arange(11)[None, :] - np.arange(1, 11)[:, None]
        spread = np.where(lag <= 0, phi[:, None, None] ** np.maximum(-lag, 0), 0.0)
        noises = np.concatenate([np.ones((len(phi), 1)), np.repeat(np.exp(log_q)[:, None], 10, axis=1)], axis=1)
        covariance = np.einsum("nti,ni,nsi->nts", spread, noises, spread) + OBSERVATION_SD**2 * np.eye(10)
        factor = np.linalg.cholesky(covariance)
        white = np.linalg.solve(factor, np.broadcast_to(observed[:, None], (len(phi), 10, 1)))[..., 0]
        log_det = np.sum(np.log(np.diagonal(factor, axis1=1, axis2=2)), axis=1)
        likelihood = -0.5 * np.sum(white**2, axis=1) - log_det - 5 * np.log(2 * np.pi)
        return likelihood + stats.norm(0, 0.5).logpdf(phi) + stats.norm(0, 0.5).logpdf(log_q)

    def log_mass(functions, phi_range=(-3.5, 3.5), q_range=(-4.5, 4.5)):
        nodes, weights = np.polynomial.legendre.leggauss(100)
        phi = 0.5 * (np.diff(phi_range) * nodes + np.sum(phi_range))
        log_q = 0.5 * (np.diff(q_range) * nodes + np.sum(q_range))
        grid = [axis.ravel() for axis in np.meshgrid(phi, log_q, indexing="ij")]
        area = np.diff(phi_range)[0] * np.diff(q_range)[0] / 4 * np.outer(weights, weights).ravel()
        scores = log_joint(*grid) + np.log(area)
        total = logsumexp(scores)
        return total, [np.sum(np.exp(scores - total) * function(*grid)) for function in functions]

    functions = [lambda phi, log_q: phi, lambda phi, log_q: np.exp(log_q), lambda phi, log_q: np.exp(2 * log_q)]
    total, (phi_mean, q_mean, q_square) = log_mass(functions)
    assert posterior.log_evidence == pytest.approx(total, abs=1e-8)
    assert posterior.mean()["phi"] == pytest.approx(phi_mean, abs=1e-8)
    assert posterior.mean()["q"] == pytest.approx(q_mean, abs=1e-8)
    assert posterior.sd()["q"] == pytest.approx(np.sqrt(q_square - q_mean**2), abs=1e-7)
    upper = posterior.quantile(0.8)
    below_phi = log_mass([], phi_range=(-3.5, float(upper["phi"])))[0] - total
    below_q = log_mass([], q_range=(-4.5, float(np.log(upper["q"]))))[0] - total
    assert np.exp(below_phi) == pytest.approx(0.8, abs=1e-6)
    assert np.exp(below_q) == pytest.approx(0.8, abs=1e-6)
    num_draws = 20_000
    draws = posterior.sample(jax.random.key(4), num_draws)
    for name in ("phi", "q"):
        # false alarm once in a million: 4.9 standard errors
        standard_error = posterior.sd()[name] / np.sqrt(num_draws)
        assert abs(np.mean(draws[name]) - posterior.mean()[name]) < 4.9 * standard_error


def test_a_needle_far_from_a_heavy_tailed_prior_is_found():
    """sd 3e-5 at 50 prior scales: seven orders of magnitude below the first window."""
    model = ar1(
        prior={"level": dist.Cauchy(0.0, 1.0)},
        transition=lambda theta, x, inputs: dist.Normal(theta["level"], 6e-5),
        observation=lambda theta, x, inputs: dist.Normal(x, 8e-5),
    )
    ys = 50.0 + 1e-4 * np.array([-1.0, 0.5, 1.2, -0.3, 0.1, -0.9, 0.2, 1.5, -0.8])
    posterior = kalman_grid(model, ys)
    # the prior is flat to first order there: d log p / d level = -2 / 50, which moves the mean by sd^2 / 25
    sd = 1e-4 / 3.0
    assert posterior.mean()["level"] == pytest.approx(np.mean(ys) - sd**2 / 25.0, abs=1e-6 * sd)
    assert posterior.sd()["level"] == pytest.approx(sd, rel=1e-6)


def test_a_prior_without_data_is_returned_even_with_the_tails_of_cauchy():
    model = ar1(
        prior={"level": dist.Cauchy(1.0, 2.0)}, transition=lambda theta, x, inputs: dist.Normal(theta["level"], 1.0)
    )
    posterior = kalman_grid(model, np.full(2, np.nan))
    assert posterior.log_evidence == pytest.approx(0.0, abs=1e-5)
    shares = np.array([0.01, 0.3, 0.9])
    # 129 nodes for a window of twice 40 e-folds: the spline is not at its best
    np.testing.assert_allclose(posterior.quantile(shares)["level"], stats.cauchy(1.0, 2.0).ppf(shares), rtol=1e-3)


def test_a_likelihood_that_is_nan_for_some_theta_is_reported(ys):
    stationary = lambda theta, inputs: dist.Normal(0.0, 1.0 / jnp.sqrt(1.0 - theta["phi"] ** 2))
    with pytest.warns(UserWarning, match="likelihood is NaN at .* of the nodes"):
        posterior = kalman_grid(ar1(initial=stationary), ys)
    assert np.isfinite(posterior.log_evidence)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(transition=lambda theta, x, inputs: dist.Normal(jnp.sin(theta["phi"] * x), 1.0)), "mean is not linear"),
        (dict(observation=lambda theta, x, inputs: dist.Normal(0.0, jnp.exp(x / 2))), "scale depends on x"),
        (dict(transition=lambda theta, x, inputs: dist.StudentT(3.0, theta["phi"] * x, 1.0)), "returns StudentT"),
    ],
)
def test_a_model_that_is_not_linear_and_gaussian_is_refused_with_the_cure(changes, message, ys):
    with pytest.raises(ModelError, match=f"{message}.*use grid_posterior"):
        kalman_grid(ar1(**changes), ys)


def test_three_parameters_are_refused_with_the_cure(ys):
    prior = {"phi": dist.Normal(0.0, 1.0), "shift": dist.Normal(jnp.zeros(2), 1.0).to_event(1)}
    with pytest.raises(ModelError, match=r"this prior has 3 \(phi, shift\). Fix all but two"):
        kalman_grid(ar1(prior=prior), ys)


def test_data_that_do_not_fit_the_model_are_refused(ys):
    with pytest.raises(DataError, match=r"y must have shape \(time\); got \(10, 2\)"):
        kalman_grid(ar1(), np.zeros((10, 2)))
    with pytest.raises(DataError, match="Use NaN for a missing value"):
        kalman_grid(ar1(), ys.at[3].set(jnp.inf))
    with pytest.raises(DataError, match="same length as ys, 10"):
        kalman_grid(ar1(), ys, inputs=np.zeros(3))
