"""Inner filters against what they should be: exact ones exactly, the others to a small part of a nat."""

import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import paramfilter as pf
from paramfilter.errors import ModelError
from paramfilter.nodes import AssumedDensity, FiniteState, Guided, Kalman, Particles, choose_inner
from paramfilter.nodes.inner.moving_grid import MovingGrid
from paramfilter.nodes.inner.quadrature import normal_rule
from paramfilter.nodes.inner_check import finer_than


def log_likelihoods(inner, thetas, ys, inputs=None):
    """Return log p(y_1..y_T | theta) at each node, and what is known of the last state."""

    def all_steps(thetas, ys, inputs):
        constants = inner.prepare(thetas)
        first = jax.tree.map(lambda leaf: leaf[0], inputs)

        def step(x, row):
            return inner.step(constants, x, *row)

        x, increments = jax.lax.scan(step, inner.init(thetas, first), (ys, inputs))
        return jnp.sum(increments, axis=0), x

    return jax.jit(all_steps)(thetas, jnp.asarray(ys, jnp.result_type(float)), inputs)


def dense_normal(mean, covariance, y):
    """Return the log density of the components of y that are there."""
    seen = ~np.isnan(y)
    apart, part = (y - mean)[seen], covariance[np.ix_(seen, seen)]
    return -0.5 * (apart @ np.linalg.solve(part, apart) + np.linalg.slogdet(part)[1] + len(apart) * np.log(2 * np.pi))


def joint_log_likelihood(A, b, Q, H, d, R, m0, P0, ys):
    """All observations are one Gaussian vector: mean and covariance of it, without any filter."""
    size, num = len(m0), len(ys)
    means, m = [], m0
    covariance = np.zeros((num + 1, num + 1, size, size))
    covariance[0, 0] = P0
    for t in range(1, num + 1):
        m = A @ m + b
        means.append(H @ m + d)
        for s in range(t):
            covariance[t, s] = A @ covariance[t - 1, s]
            covariance[s, t] = covariance[t, s].T
        covariance[t, t] = A @ covariance[t - 1, t - 1] @ A.T + Q
    blocks = [[H @ covariance[t, s] @ H.T + (R if t == s else 0) for s in range(1, num + 1)] for t in range(1, num + 1)]
    return dense_normal(np.concatenate(means), np.block(blocks), np.concatenate(ys))


def local_trend(observation):
    """Level and slope, of which the slope has no noise, seen through two numbers."""
    return pf.StateSpaceModel(
        prior={"q": dist.LogNormal(0.0, 0.5), "c": dist.Normal(0.0, 1.0)},
        initial=lambda theta, inputs: dist.Normal(jnp.zeros(2), jnp.array([1.0, 0.3])).to_event(1),
        transition=lambda theta, x, inputs: dist.MultivariateNormal(
            jnp.stack([x[0] + x[1], x[1]]), scale_tril=jnp.diag(jnp.stack([theta["q"], 1e-3]))
        ),
        observation=observation,
    )


@pytest.mark.parametrize("is_correlated", [False, True])
def test_kalman_gives_the_joint_density_of_all_observations(float64, is_correlated):
    noise = np.array([[0.5, 0.2], [0.2, 0.4]]) if is_correlated else np.diag([0.5, 0.4])

    def observation(theta, x, inputs):
        mean = jnp.stack([x[0], x[0] + theta["c"]])
        if is_correlated:
            return dist.MultivariateNormal(mean, jnp.asarray(noise))
        return dist.Normal(mean, jnp.sqrt(jnp.diagonal(jnp.asarray(noise)))).to_event(1)

    inner = Kalman.bind(local_trend(observation))
    ys = np.array(jax.random.normal(jax.random.key(3), (6, 2)), float)
    ys[2] = np.nan
    ys[4, 1] = np.nan
    thetas = {"q": jnp.array([0.5, 2.0]), "c": jnp.array([0.3, -1.0])}
    found, _ = log_likelihoods(inner, thetas, ys)
    for node in range(2):
        q, c = float(thetas["q"][node]), float(thetas["c"][node])
        A, H = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0], [1.0, 0.0]])
        exact = joint_log_likelihood(
            A, np.zeros(2), np.diag([q**2, 1e-6]), H, np.array([0.0, c]), noise, np.zeros(2), np.diag([1.0, 0.09]), ys
        )
        assert float(found[node]) == pytest.approx(exact, abs=1e-8)


def test_kalman_reads_the_inputs_of_each_step(float64):
    model = pf.StateSpaceModel(
        prior={"q": dist.LogNormal(0.0, 0.5)},
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, inputs: dist.Normal(inputs["a"] * x, theta["q"]),
        observation=lambda theta, x, inputs: dist.Normal(x, 0.5),
        typical_inputs={"a": jnp.array([0.5, 0.9, 0.1])},
    )
    ys, a = np.array([0.3, -0.2]), jnp.array([0.5, -2.0])
    found, _ = log_likelihoods(Kalman.bind(model), {"q": jnp.array([0.7])}, ys, {"a": a})
    first = 0.25 + 0.49
    covariance = np.array([[first + 0.25, -2 * first], [-2 * first, 4 * first + 0.49 + 0.25]])
    assert float(found[0]) == pytest.approx(dense_normal(np.zeros(2), covariance, ys), abs=1e-8)


def test_finite_state_sums_over_all_paths(float64):
    model = pf.models.regime_switching()
    thetas = {"stay_low": 0.9, "stay_high": 0.7, "low": -0.2, "gap": 1.5, "sd": 0.8}
    ys = np.array([0.1, 1.4, np.nan, 1.2, -0.3])
    by_last_state = np.zeros(2)
    for path in itertools.product((0, 1), repeat=len(ys) + 1):
        chance = 0.5
        for before, after, y in zip(path, path[1:], ys, strict=False):
            stay = thetas["stay_high"] if before else thetas["stay_low"]
            chance *= stay if before == after else 1 - stay
            if not np.isnan(y):
                chance *= np.exp(-0.5 * ((y + 0.2 - 1.5 * after) / 0.8) ** 2) / (0.8 * np.sqrt(2 * np.pi))
        by_last_state[path[-1]] += chance
    inner, total = FiniteState.bind(model), np.sum(by_last_state)
    found, x = log_likelihoods(inner, jax.tree.map(lambda v: jnp.array([v]), thetas), ys)
    assert float(found[0]) == pytest.approx(np.log(total), abs=1e-6)
    high = by_last_state[1] / total
    assert 0.1 < high < 0.9, "or a wrong variance would be near the right one"
    np.testing.assert_allclose(np.ravel(inner.moments(x)), [high, high * (1 - high)], atol=1e-6)


def on_a_grid(move_mean, sd, log_look, ys, reach=12.0, size=4001):
    """Return the log likelihood of a scalar model by a sum over a fine grid of states, x_0 ~ N(0, 1)."""
    return filtered_on_a_grid(move_mean, sd, log_look, ys, (0.0, 1.0), (-reach, reach), size)[0]


def filtered_on_a_grid(move_mean, sd, log_look, ys, initial, ends, size=4001):
    """Return the log likelihood of a scalar model, and mean and sd of the last state; `initial` is mean and sd."""
    grid = np.linspace(*ends, size)
    step = grid[1] - grid[0]
    density = stats.norm.pdf(grid, *initial)
    kernel = stats.norm.pdf(grid[:, None], move_mean(grid)[None], sd) * step
    total = 0.0
    for y in ys:
        density = kernel @ density
        log_density = np.log(np.maximum(density, np.finfo(float).tiny)) + (0.0 if np.isnan(y) else log_look(grid, y))
        largest = np.max(log_density)
        density = np.exp(log_density - largest)
        mass = np.sum(density) * step
        total += largest + np.log(mass)
        density /= mass
    mean = np.sum(density * grid) * step
    return total, mean, np.sqrt(np.sum(density * (grid - mean) ** 2) * step)


LOG_2_PI = np.log(2 * np.pi)
BENT = {
    "volatility": (
        lambda theta, x, inputs: dist.Normal(0.0, jnp.exp(x / 2)),
        lambda x, y: -0.5 * (LOG_2_PI + x + y**2 * np.exp(-x)),
        np.array([0.3, -1.5, 0.1, np.nan, 4.0, -0.2, 0.7, 0.05]),
    ),
    "counts": (
        lambda theta, x, inputs: dist.Poisson(jnp.exp(1.0 + x)),
        lambda x, y: y * (1.0 + x) - np.exp(1.0 + x) - np.sum(np.log(np.arange(1, int(y) + 1))),
        np.array([3.0, 0.0, 2.0, np.nan, 25.0, 9.0, 1.0, 4.0]),
    ),
}


@pytest.mark.parametrize("name", BENT)
@pytest.mark.parametrize(("kind", "tolerance"), [(AssumedDensity, 0.01), (MovingGrid, 5e-5)])
def test_skewed_laws_are_followed(name, kind, tolerance):
    observation, log_look, ys = BENT[name]
    model = pf.StateSpaceModel(
        prior={"phi": dist.Uniform(-1.0, 1.0)},
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x, 0.4),
        observation=observation,
    )
    phis = np.array([0.5, 0.95])
    found, _ = log_likelihoods(kind.bind(model), {"phi": jnp.asarray(phis, jnp.float32)}, ys)
    exact = [on_a_grid(lambda grid, phi=phi: phi * grid, 0.4, log_look, ys) for phi in phis]
    np.testing.assert_allclose(found, exact, atol=tolerance)


def scalar_model(observation, mean, sd):
    return pf.StateSpaceModel(
        prior={"sigma": dist.LogNormal(-1.0, 1.0)},
        initial=lambda theta, inputs: dist.Normal(mean, sd),
        transition=lambda theta, x, inputs: dist.Normal(x, theta["sigma"]),
        observation=lambda theta, x, inputs: observation(x),
    )


FAR = {
    "a large count first": (
        lambda x: dist.Poisson(jnp.exp(x)),
        lambda x, y: stats.poisson.logpmf(y, np.exp(x)),
        (0.0, 3.0),
        [500.0, 480.0, 530.0],
        0.005,
    ),
    "no count first": (
        lambda x: dist.Poisson(jnp.exp(x)),
        lambda x, y: stats.poisson.logpmf(y, np.exp(x)),
        (8.0, 3.0),
        [0.0, 1.0, 5.0],
        0.1,
    ),
    "a dispersed count first": (
        lambda x: dist.NegativeBinomial2(jnp.exp(x), 10.0),
        lambda x, y: stats.nbinom.logpmf(y, 10.0, 10.0 / (10.0 + np.exp(x))),
        (0.0, 3.0),
        [300.0, 280.0, np.nan, 350.0],
        0.01,
    ),
    "a count after a gap": (
        lambda x: dist.Poisson(jnp.exp(x)),
        lambda x, y: stats.poisson.logpmf(y, np.exp(x)),
        (3.0, 0.5),
        [20.0, 25.0, *[np.nan] * 40, 2000.0, 2100.0],
        0.01,
    ),
    "a large return": (
        lambda x: dist.Normal(0.0, jnp.exp(x / 2)),
        lambda x, y: stats.norm.logpdf(y, 0.0, np.exp(x / 2)),
        (0.0, 3.0),
        [50.0, 30.0],
        0.02,
    ),
}


@pytest.mark.parametrize("name", FAR)
@pytest.mark.parametrize("kind", [AssumedDensity, MovingGrid])
def test_an_observation_far_more_precise_than_the_prediction_is_taken_in(name, kind):
    observation, log_look, (mean, sd), ys, tolerance = FAR[name]
    sigmas = np.array([0.2, 0.4, 0.8])
    inner = kind.bind(scalar_model(observation, mean, sd))
    found, x = log_likelihoods(inner, {"sigma": jnp.asarray(sigmas, jnp.float32)}, ys)
    exact, means, sds = np.transpose(
        [filtered_on_a_grid(lambda grid: grid, sigma, log_look, ys, (mean, sd), (-20.0, 26.0)) for sigma in sigmas]
    )
    np.testing.assert_allclose(found, exact, atol=tolerance)
    np.testing.assert_allclose((inner.moments(x)[0] - means) / sds, 0.0, atol=0.1)
    np.testing.assert_allclose(np.sqrt(inner.moments(x)[1]) / sds, 1.0, atol=0.1)


def test_a_precise_observation_of_two_numbers_is_taken_in():
    """The log rate is a sum, so the exact answer needs a grid of the sum only."""
    model = pf.StateSpaceModel(
        prior={"sigma": dist.LogNormal(-1.0, 1.0)},
        initial=lambda theta, inputs: dist.Normal(jnp.zeros(2), jnp.array([3.0, 1.0])).to_event(1),
        transition=lambda theta, x, inputs: dist.Normal(x, theta["sigma"]).to_event(1),
        observation=lambda theta, x, inputs: dist.Poisson(jnp.exp(x[0] + x[1])),
    )
    ys, sigmas = [500.0, 450.0, 520.0], np.array([0.2, 0.4])
    found, _ = log_likelihoods(AssumedDensity.bind(model), {"sigma": jnp.asarray(sigmas, jnp.float32)}, ys)
    log_look = lambda x, y: stats.poisson.logpmf(y, np.exp(x))
    exact = [
        filtered_on_a_grid(lambda grid: grid, np.sqrt(2) * sigma, log_look, ys, (0.0, np.sqrt(10.0)), (-20.0, 20.0))[0]
        for sigma in sigmas
    ]
    np.testing.assert_allclose(found, exact, atol=0.02)


def test_guided_moves_are_exact_where_the_observation_is_precise():
    model = pf.models.sin()
    thetas = np.array([0.3, 0.7])
    ys = np.asarray(pf.simulate(jax.random.key(2), model, {"theta": 0.7}, 40)[1], np.float64)
    inner = Guided.bind(model)
    found, _ = log_likelihoods(inner, {"theta": jnp.asarray(thetas, jnp.float32)}, ys)
    law = model.observation({"theta": 0.5}, 0.0, None)
    sd = float(law.scale)
    look = lambda x, y: -0.5 * (LOG_2_PI + 2 * np.log(sd) + ((y - x) / sd) ** 2)
    exact = [on_a_grid(lambda grid, theta=theta: np.sin(theta * grid), 1.0, look, ys, reach=8.0) for theta in thetas]
    np.testing.assert_allclose(found, exact, atol=0.01)


@pytest.mark.parametrize("kind", [Kalman, Guided, AssumedDensity, FiniteState])
def test_draws_of_the_state_have_the_moments_that_are_told(kind):
    model = (
        pf.models.regime_switching() if kind is FiniteState else pf.models.linear_gaussian(phi=dist.Normal(0.5, 0.1))
    )
    inner = kind.bind(model)
    z = jnp.asarray(model.parameters.prior_draws[:2], jnp.float32)
    thetas = jax.vmap(model.parameters.constrain)(z)
    _, x = log_likelihoods(inner, thetas, np.array([0.4, 1.3]))
    means, variances = inner.moments(x)
    one = jax.tree.map(lambda leaf: leaf[..., 1], x)
    draws = np.asarray(jax.vmap(lambda key: inner.sample(key, one))(jax.random.split(jax.random.key(0), 4000)), float)
    # six standard errors: a false alarm in 1e9 tests
    assert np.mean(draws) == pytest.approx(float(means[1]), abs=6 * np.sqrt(float(variances[1]) / 4000))
    assert np.var(draws) == pytest.approx(float(variances[1]), rel=6 * np.sqrt(2 / 4000) + 0.02)


@pytest.mark.parametrize("dimension", [1, 2, 3, 5])
def test_rules_integrate_the_moments_of_a_normal_law(dimension):
    points, weights = normal_rule(dimension)
    np.testing.assert_allclose(np.sum(weights), 1.0)
    np.testing.assert_allclose(weights @ points, np.zeros(dimension), atol=1e-12)
    np.testing.assert_allclose((weights[:, None] * points).T @ points, np.eye(dimension), atol=1e-12)


def test_each_model_gets_the_filter_that_is_exact_for_it_if_there_is_one():
    names = ("tracking", "sin", "stochastic_volatility")
    chosen = [type(choose_inner(getattr(pf.models, name)()).inner) for name in names]
    assert chosen == [Kalman, Guided, AssumedDensity]
    assert isinstance(choose_inner(pf.models.regime_switching()).inner, FiniteState)


def test_a_model_that_bends_is_refused_by_the_kalman_filter():
    with pytest.raises(ModelError, match="not linear in x"):
        Kalman.bind(pf.models.sin())


def first_forecast(inner, thetas, y):
    """Return the forecast of the first observation at each node."""
    return inner.forecast(inner.prepare(thetas), inner.init(thetas, None), jnp.asarray(y), None)


def test_forecasts_say_where_an_observation_lies():
    linear = pf.models.linear_gaussian(phi=dist.Normal(0.5, 0.1), r=0.5)
    law = linear.initial({"phi": 0.5}, None)
    phis = jnp.array([0.2, 0.8])
    q, r = (
        float(part.scale) for part in (linear.transition({"phi": 0.0}, 0.0, None), linear.observation({}, 0.0, None))
    )
    sd = np.sqrt(np.asarray(phis) ** 2 * float(law.scale) ** 2 + q**2 + r**2)
    exact = dist.Normal(np.asarray(phis) * float(law.loc), sd).cdf(0.7)
    for kind in (Kalman, Guided, AssumedDensity):
        found = first_forecast(kind.bind(linear), {"phi": phis}, 0.7)
        np.testing.assert_allclose(found.lower[0], exact, atol=2e-3)
        np.testing.assert_allclose(found.upper[0], exact, atol=2e-3)
        np.testing.assert_allclose(found.mean[0], np.asarray(phis) * float(law.loc), atol=1e-3)
        np.testing.assert_allclose(np.sqrt(found.variance[0]), sd, rtol=1e-3)


def test_a_forecast_of_counts_has_atoms():
    inner = AssumedDensity.bind(
        pf.StateSpaceModel(
            prior={"level": dist.Normal(0.0, 1.0)},
            initial=lambda theta, inputs: dist.Normal(0.0, 1e-3),
            transition=lambda theta, x, inputs: dist.Normal(0.0 * x, 1e-3),
            observation=lambda theta, x, inputs: dist.Poisson(jnp.exp(theta["level"] + x)),
        )
    )
    found = first_forecast(inner, {"level": jnp.zeros(1)}, 2.0)
    np.testing.assert_allclose([found.mean[0, 0], found.variance[0, 0]], [1.0, 1.0], atol=1e-3)
    np.testing.assert_allclose(
        [found.lower[0, 0], found.upper[0, 0]], np.cumsum([np.exp(-1), np.exp(-1), np.exp(-1) / 2])[1:], atol=1e-3
    )


def test_a_state_without_a_variance_gets_particles():
    assert type(choose_inner(pf.models.cauchy_ar1()).inner) is Particles
    with pytest.raises(ModelError, match="a mean and a variance"):
        AssumedDensity.bind(pf.models.cauchy_ar1())


def births_and_deaths():
    """Counts without bound, which are seen with noise."""
    return pf.StateSpaceModel(
        prior={"births": dist.Gamma(2.0, 0.5), "survival": dist.Beta(2.0, 2.0)},
        initial=lambda theta, inputs: dist.Poisson(5.0),
        transition=lambda theta, x, inputs: dist.Poisson(theta["births"] + theta["survival"] * x),
        observation=lambda theta, x, inputs: dist.Normal(x, 2.0),
    )


def sum_over_counts(births, survival, ys, most=60):
    """Return log p(y | theta) by a sum over all counts up to `most`."""
    counts = np.arange(most)
    moves = stats.poisson.pmf(counts, (births + survival * counts)[:, None])
    chances, total = stats.poisson.pmf(counts, 5.0), 0.0
    for y in ys:
        chances = chances @ moves
        if not np.isnan(y):
            chances = chances * stats.norm.pdf(y, counts, 2.0)
        total += np.log(np.sum(chances))
        chances = chances / np.sum(chances)
    return total


def test_particles_estimate_the_likelihood_of_counts_and_err_together():
    """Over 16 seeds; a mean lies within 5 of its standard errors but for one time in 10^6."""
    inner, ys = Particles.bind(births_and_deaths(), 128), np.array([6.0, 9.5, np.nan, 8.0, 12.0, 3.0, 5.0])
    thetas = {"births": jnp.array([3.0, 3.05]), "survival": jnp.array([0.5, 0.5])}
    exact = np.array([sum_over_counts(births, 0.5, ys) for births in (3.0, 3.05)])
    found = np.asarray(jax.vmap(lambda seed: log_likelihoods(replace(inner, seed=seed), thetas, ys)[0])(np.arange(16)))
    ratios = np.exp(found - exact)  # a particle filter's likelihood is unbiased, its logarithm is not
    assert np.all(np.abs(np.mean(ratios, axis=0) - 1) < 5 * np.std(ratios, axis=0) / np.sqrt(16))
    assert 0.01 < np.std(found[:, 0]) < 0.5
    assert np.std(found[:, 1] - found[:, 0]) < 0.3 * np.std(found[:, 0])


@pytest.mark.slow
def test_a_node_filter_learns_from_counts_without_bound_and_tells_its_error():
    model = births_and_deaths()
    ys = pf.simulate(jax.random.key(3), model, {"births": 4.0, "survival": 0.5}, num_steps=12)[1]
    filter = pf.node_filter(model, 64, inner=Particles.bind(model, 32))
    state = pf.run(filter, filter.init(jax.random.key(0)), ys, progress=False)[0]
    posterior = filter.posterior(state)
    assert 0 < float(posterior.mean()["survival"]) < 1
    assert not posterior.error().not_measured and 0 < np.max(posterior.shift_by_inner.sds) < 3
    draws = filter.engine.draw_joint(state, jax.random.key(1), jax.random.split(jax.random.key(2), 50))[0]
    assert np.mean(draws) == pytest.approx(np.mean(ys[-3:]), abs=6)


def test_moves_that_are_not_gaussian_are_not_guided():
    model = pf.StateSpaceModel(
        prior={"a": dist.Normal(0.0, 0.2)},
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, inputs: dist.Logistic(theta["a"] * x, 1.0),
        observation=lambda theta, x, inputs: dist.Normal(x, 1.0),
    )
    assert type(choose_inner(model).inner) is AssumedDensity


def two_numbers(*spread):
    """Make a linear model whose two states move with these standard deviations."""
    return pf.StateSpaceModel(
        prior={"phi": dist.Uniform(-1.0, 1.0)},
        initial=lambda theta, inputs: dist.Normal(jnp.zeros(2), 1.0).to_event(1),
        transition=lambda theta, x, inputs: dist.Normal(
            jnp.stack([theta["phi"] * x[0], 0.5 * x[0] + 0.3 * x[1]]), jnp.array(spread)
        ).to_event(1),
        observation=lambda theta, x, inputs: dist.Normal(x[0] - x[1], 0.5),
    )


PHIS = {"phi": jnp.array([0.5, 0.9])}


def test_a_moving_grid_knows_a_state_of_two_numbers():
    """Where the model is linear, the Kalman filter has the answer."""
    model, ys = two_numbers(0.5, 0.4), np.array([0.3, -1.5, np.nan, 2.0, -0.2])
    exact, known = log_likelihoods(Kalman.bind(model), PHIS, ys)
    found, last = log_likelihoods(MovingGrid.bind(model), PHIS, ys)
    np.testing.assert_allclose(found, exact, atol=1e-3)
    for own, other in zip(MovingGrid.bind(model).moments(last), Kalman.bind(model).moments(known), strict=True):
        np.testing.assert_allclose(own, other, atol=3e-3)


@pytest.mark.parametrize("spread", [0.05, 0.1, 0.5])
def test_a_moving_grid_says_what_it_misses(spread):
    """Moves that are narrow fall between its points: it is off by up to 3 nats here, and says 13."""
    model = two_numbers(spread, spread)
    ys = np.array(pf.simulate(jax.random.key(0), model, {"phi": 0.8}, 40)[1])
    exact, _ = log_likelihoods(Kalman.bind(model), PHIS, ys)
    found, last = log_likelihoods(MovingGrid.bind(model), PHIS, ys)
    assert np.all(np.abs(found - exact) < 0.01 + last["missed"])


def test_what_is_exact_has_nothing_finer():
    assert finer_than(Kalman.bind(pf.models.linear_gaussian())) is None
    assert isinstance(finer_than(Guided.bind(pf.models.sin())), MovingGrid)
