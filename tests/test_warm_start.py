"""A filter that begins with draws of an offline fit goes on as if it had seen the data itself."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import paramfilter as pf
from paramfilter.inspect.linear_structure import linear_structure
from paramfilter.warm_start import model_from_draws

NUM_DRAWS = 4000
TRUTH = {"phi": 0.8, "r": 0.6}


def level(phi=dist.Normal(0.5, 0.3), r=dist.LogNormal(-0.7, 0.5)):
    return pf.models.linear_gaussian(phi=phi, q=1.0, r=r)


def exact_draws(model, ys):
    """Draw theta and the last state from the exact posterior: a grid over theta, a Kalman filter at each draw."""
    draws = pf.references.kalman_grid(model, ys).sample(jax.random.key(5), NUM_DRAWS)

    def last_state(theta, key):
        def step(carry, y):
            mean, variance = theta["phi"] * carry[0], theta["phi"] ** 2 * carry[1] + 1.0
            gain = variance / (variance + theta["r"])
            return (mean + gain * (y - mean), (1 - gain) * variance), None

        (mean, variance), _ = jax.lax.scan(step, (jnp.zeros(()), jnp.ones(())), ys)
        return mean + jnp.sqrt(variance) * jax.random.normal(key)

    return draws, jax.jit(jax.vmap(last_state))(draws, jax.random.split(jax.random.key(6), NUM_DRAWS))


@pytest.mark.slow
def test_the_second_half_of_the_data_completes_the_first():
    model = level()
    _, ys = pf.simulate(jax.random.key(0), model, TRUTH, 300)
    right = pf.references.kalman_grid(model, ys)
    warm = model_from_draws(model, *exact_draws(model, ys[:200]))
    filter = pf.node_filter(warm)
    state, _ = pf.run(filter, filter.init(jax.random.key(1)), ys[200:], progress=False)
    posterior = filter.posterior(state)
    for name in TRUTH:
        mean, sd = float(right.mean()[name]), float(right.sd()[name])
        # The Gaussian likeness is good for about 0.1 sd.
        assert float(posterior.mean()[name]) == pytest.approx(mean, abs=0.45 * sd)
        assert float(posterior.sd()[name]) == pytest.approx(sd, rel=0.25)


def normals(seed, dimension):
    return np.asarray(jax.random.normal(jax.random.key(seed), (NUM_DRAWS, dimension)), np.float64)


@pytest.fixture(scope="module")
def correlated():
    """Draws with a known law in z: phi and log r have correlation 0.6."""
    factor = np.array([[0.05, 0.0], [0.12, 0.16]])
    z = np.array([0.8, -0.5]) + normals(0, 2) @ factor.T
    return z, {"phi": z[:, 0], "r": np.exp(z[:, 1])}


class TestJointPrior:
    def test_it_has_the_mean_and_the_covariance_of_the_draws(self, correlated):
        z, draws = correlated
        warm = model_from_draws(level(), draws)
        law = dist.MultivariateNormal(np.mean(z, axis=0), np.cov(z, rowvar=False))
        assert float(warm.parameters.log_prior(jnp.asarray(z[3]))) == pytest.approx(float(law.log_prob(z[3])), rel=1e-4)
        drawn = warm.parameters.prior_draws
        # 4096 draws: a correlation is good to 0.01, a mean to 0.016 sd; allowed are six times as much.
        assert np.corrcoef(drawn, rowvar=False)[0, 1] == pytest.approx(np.corrcoef(z, rowvar=False)[0, 1], abs=0.06)
        assert np.all(np.abs(np.mean(drawn, axis=0) - np.mean(z, axis=0)) < 0.1 * np.std(z, axis=0))

    def test_marginals_speak_the_natural_scale(self, correlated):
        z, draws = correlated
        warm = model_from_draws(level(), draws)
        by_hand = dist.LogNormal(np.mean(z[:, 1]), np.std(z[:, 1], ddof=1))
        assert float(warm.prior["r"].log_prob(0.7)) == pytest.approx(float(by_hand.log_prob(0.7)), rel=1e-5)

    def test_chains_and_results_with_a_posterior_are_read_too(self, correlated):
        _, draws = correlated
        by_chain = {name: values.reshape(4, -1) for name, values in draws.items()}
        result = type("Result", (), {"posterior": by_chain})
        first, second = (model_from_draws(level(), given) for given in (draws, result))
        assert np.allclose(first.parameters.joint.covariance, second.parameters.joint.covariance)

    def test_coefficients_stay_conjugate_and_correlated(self):
        model = pf.StateSpaceModel(
            prior={"a": dist.Normal(0.0, 1.0), "b": dist.Normal(jnp.zeros(2), 1.0).to_event(1)},
            initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
            transition=lambda theta, x, inputs: dist.Normal(theta["a"] * x + theta["b"].sum(), 1.0),
            observation=lambda theta, x, inputs: dist.Normal(x, 0.5),
        )
        z = normals(1, 3) @ np.array([[1.0, 0.5, 0.0], [0, 1, 0.2], [0, 0, 1]])
        warm = model_from_draws(model, {"a": z[:, 0], "b": z[:, 1:]})
        assert np.allclose(linear_structure(warm).coefficient_covariance, np.cov(z, rowvar=False))


class TestWhatIsRefused:
    def test_what_is_no_set_of_draws(self, correlated):
        _, draws = correlated
        for given, text in [
            ({"phi": draws["phi"]}, r"no \['r'\]"),
            ({"phi": draws["phi"], "r": draws["r"][:50]}, "different numbers"),
            ({"phi": draws["phi"], "r": -draws["r"]}, r"\['r'\] are not finite, or outside the support"),
            ({name: values[:30] for name, values in draws.items()}, "30 draws are too few for 2"),
            ({"phi": draws["phi"], "r": 0.5}, "wanted are leading axes"),
        ]:
            with pytest.raises(pf.errors.DataError, match=text):
                model_from_draws(level(), given)

    def test_draws_far_from_gaussian_are_told(self, correlated):
        _, draws = correlated
        with pytest.warns(UserWarning, match=r"\['phi'\] are far from Gaussian"):
            model_from_draws(level(), {**draws, "phi": np.exp(3 * np.abs(draws["phi"] - 0.8) / 0.05)})
