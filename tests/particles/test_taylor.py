"""Taylor beliefs: exact where they must be, refused where they cannot be, and never wrong in silence."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import paramfilter as pf
from paramfilter.model import Transition
from paramfilter.particles import Conjugate, TaylorOfLogDensity, TaylorOfMean


def statistic_after(belief, xs, ys):
    """Feed a belief with known states."""

    shared = belief.init_shared(jnp.asarray(belief.model.parameters.prior_draws, float))

    def absorb(statistic, step):
        datum = Transition(step[0], step[1], step[2], None)
        return belief.update(shared, statistic, datum), None

    scan = jax.jit(lambda xs, ys: jax.lax.scan(absorb, belief.init(), (xs[:-1], xs[1:], ys[1:]))[0])
    return scan(xs, ys)


@pytest.mark.parametrize("kind", [TaylorOfMean(order=2), TaylorOfLogDensity(order=2)])
def test_a_linear_model_is_expanded_without_error(kind, float64):
    model = pf.models.linear_gaussian()
    xs, ys = pf.simulate(jax.random.key(0), model, {"phi": 0.5}, 40)
    taylor, exact = kind.bind(model), Conjugate().bind(model)

    def absorb(statistic, step):
        return exact.update(None, statistic, Transition(*step, None)), None

    expected = jax.lax.scan(absorb, exact.init(), (xs[:-1], xs[1:], ys[1:]))[0]
    shared = taylor.init_shared(jnp.zeros((2, 1)))
    statistic = statistic_after(taylor, xs, ys)
    for z in ([0.4], [0.6]):
        found = float(taylor.log_prob(shared, statistic, jnp.array(z)))
        assert found == pytest.approx(float(exact.log_prob(None, expected, jnp.array(z))), abs=1e-6)


def test_statistic_is_the_formula_of_theorem_3(float64):
    """Coefficients x' H^i / s^2 - J^i / (2 s^2) of the main text, with its sign, for sin(theta x) at order 3."""
    model = pf.models.sin()
    belief = TaylorOfMean(order=3, center=0.0).bind(model)
    x_prev, x = 1.3, 0.4
    scale = float(belief.coordinates.scale[0])
    found = belief.expand(Transition(jnp.array(x_prev), jnp.array(x), jnp.array(jnp.nan), None))
    mean = np.array([0.0, x_prev, 0.0, -(x_prev**3) / 6])
    expected = -0.5 * np.convolve(mean, mean)
    expected[:4] += x * mean
    np.testing.assert_allclose(np.asarray(found)[1:], (expected * scale ** np.arange(7.0))[1:], rtol=1e-10, atol=1e-14)


def two_parameter_model():
    """A mean that is a polynomial of degree 3 in two parameters, one of them in the observation too."""
    return pf.StateSpaceModel(
        prior={"a": dist.Normal(0.2, 0.3), "b": dist.Normal(0.0, 0.5)},
        initial=lambda theta, inputs: dist.Normal(theta["b"], 1.0),
        transition=lambda theta, x, inputs: dist.Normal(theta["a"] * x + theta["a"] * theta["b"] ** 2, 1.0),
        observation=lambda theta, x, inputs: dist.Normal(x + theta["b"], 0.5),
    )


@pytest.mark.parametrize("kind", [TaylorOfMean(order=3), TaylorOfLogDensity(order=6)])
def test_two_parameters_in_transition_observation_and_initial_law(kind, float64):
    model = two_parameter_model()
    xs, ys = pf.simulate(jax.random.key(0), model, {"a": 0.5, "b": 0.3}, 25)
    belief = kind.bind(model)
    statistic = belief.update_initial(None, statistic_after(belief, xs, ys), jnp.array(0.7), None)

    def exact(z):
        theta = {"a": z[0], "b": z[1]}
        steps = jax.vmap(lambda x_prev, x: model.transition_log_prob(theta, x_prev, x, None))(xs[:-1], xs[1:])
        seen = jax.vmap(lambda x, y: model.observation_log_prob(theta, x, y, None))(xs[1:], ys[1:])
        prior = model.parameters.log_prior(z)
        return prior + jnp.sum(steps) + jnp.sum(seen) + model.initial_log_prob(theta, jnp.array(0.7), None)

    log_density = belief._log_density(statistic.value)
    points = jnp.array([[0.5, 0.3], [0.1, -0.4], [0.9, 0.8]])
    found, expected = jax.vmap(log_density)(points), jax.vmap(exact)(points)
    np.testing.assert_allclose(found - found[0], expected - expected[0], rtol=1e-9, atol=1e-9)


def test_moments_and_density_in_two_dimensions_agree_with_quadrature(float64):
    model = two_parameter_model()
    xs, ys = pf.simulate(jax.random.key(0), model, {"a": 0.5, "b": 0.3}, 25)
    belief = TaylorOfMean(order=3).bind(model)
    statistic = statistic_after(belief, xs, ys)
    a, b = np.meshgrid(np.linspace(-0.8, 1.6, 201), np.linspace(-1.2, 1.6, 201), indexing="ij")
    points = jnp.stack([a.ravel(), b.ravel()], axis=1)
    values = np.asarray(jax.vmap(belief._log_density(statistic.value))(points)).reshape(a.shape)
    weights = np.exp(values - values.max())
    weights /= weights.sum()
    mean = np.array([np.sum(weights * a), np.sum(weights * b)])
    sd = np.sqrt([np.sum(weights * (a - mean[0]) ** 2), np.sum(weights * (b - mean[1]) ** 2)])
    # A population of draws from this very belief, as a filter would have.
    draws = mean + sd * jax.random.normal(jax.random.key(3), (400, 2))
    shared = belief.init_shared(draws)
    found = belief.moments(shared, statistic, draws[0])
    assert abs(float(found.mean["a"]) - mean[0]) < 0.05 * sd[0] and abs(float(found.mean["b"]) - mean[1]) < 0.05 * sd[1]
    assert float(jnp.sqrt(found.variance["a"])) == pytest.approx(sd[0], rel=0.05)
    cell = (a[1, 0] - a[0, 0]) * (b[0, 1] - b[0, 0])
    row, column = np.unravel_index(weights.argmax(), weights.shape)
    peak = float(belief.log_prob(shared, statistic, jnp.array([a[row, column], b[row, column]])))
    assert peak == pytest.approx(np.log(weights.max() / cell), abs=0.05)


@pytest.mark.slow
def test_densities_that_taylor_mode_tools_miss_are_expanded():
    """lgamma, softplus and Poisson have no rule in JAX's own Taylor mode; the expansion must not notice."""
    model = pf.StateSpaceModel(
        prior={"k": dist.LogNormal(0.0, 0.2)},
        initial=lambda theta, inputs: dist.Normal(0.0, 0.5),
        transition=lambda theta, x, inputs: dist.StudentT(3.0 + theta["k"], 0.5 * x, 0.5),
        observation=lambda theta, x, inputs: dist.Poisson(jax.nn.softplus(x + theta["k"]) + 0.1),
    )
    filter = pf.extended_parameter_filter(model, 50, belief=TaylorOfLogDensity(order=2))
    state = filter.init(jax.random.key(1))
    for y in pf.simulate(jax.random.key(0), model, {"k": 1.0}, 5)[1]:
        state, info = filter.step(state, y)
        assert float(info.approximation_error) < 0.1  # nats
    assert float(filter.posterior(state).mean()["k"]) == pytest.approx(1.0, abs=0.3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("coefficients", "improper"),
    [
        ([0.0, 1.0, -2.0, 0.0, -0.1], False),
        ([0.0, 1.0, -2.0, 0.0, 1e-3], True),
        ([0.0, 1.0, -2.0, 1e-3, 0.0], True),
        ([0.0, 50.0, -2.0, 0.0, 0.0], False),
        ([0.0, 0.0, 0.4, 0.0, 0.0], False),  # the prior's own curvature, -1/2 in these coordinates, still wins
        ([0.0, 0.0, 0.6, 0.0, 0.0], True),
        ([0.0, 0.0, 0.0, 0.0, 0.0], False),
    ],
)
def test_an_improper_polynomial_is_found(coefficients, improper):
    belief = TaylorOfLogDensity(order=4, center=0.0).bind(pf.models.cauchy_ar1())
    assert bool(jax.jit(belief._is_improper)(jnp.array(coefficients))) == improper


@pytest.mark.slow
def test_an_improper_direction_is_found_among_several_parameters():
    belief = TaylorOfLogDensity(order=4).bind(two_parameter_model())
    exponents = belief.basis.exponents.tolist()
    proper = jnp.zeros(belief.basis.size).at[exponents.index([4, 0])].set(-1.0).at[exponents.index([0, 4])].set(-1.0)
    assert not bool(belief._is_improper(proper))
    # -a^4 - b^4 + 3 a^2 b^2 falls along both axes and rises along the diagonal.
    assert bool(belief._is_improper(proper.at[exponents.index([2, 2])].set(3.0)))


@pytest.mark.slow
def test_an_improper_belief_is_marked_in_the_outcome():
    filter = pf.extended_parameter_filter(pf.models.cauchy_ar1(), 50, belief=TaylorOfLogDensity(order=4))
    ys = pf.simulate(jax.random.key(0), filter.model, {"a": 0.7}, 10)[1]
    state, _ = pf.run(filter, filter.init(jax.random.key(1)), ys)
    assert int(state.outcome) & pf.Outcome.BELIEF_IMPROPER
    assert "grows without bound" in pf.explain(state.outcome)


@pytest.mark.slow
def test_the_papers_cauchy_example_is_marked_as_outside_its_radius():
    """Order 10 is proper and narrow, and wrong: half of all Cauchy shocks lie outside the radius of the series."""
    filter = pf.extended_parameter_filter(pf.models.cauchy_ar1(), 100, belief=TaylorOfLogDensity(order=10))
    ys = pf.simulate(jax.random.key(0), filter.model, {"a": 0.7}, 30)[1]
    state, history = pf.run(filter, filter.init(jax.random.key(1)), ys)
    assert int(state.outcome) & pf.Outcome.BELIEF_INACCURATE
    assert float(jnp.max(history.info.approximation_error)) > 1.0


@pytest.mark.slow
def test_sin_within_its_radius_is_not_marked():
    filter = pf.extended_parameter_filter(pf.models.sin(), 100, belief=TaylorOfMean(order=7))
    ys = pf.simulate(jax.random.key(0), filter.model, {"theta": 0.7}, 200)[1]
    state, history = pf.run(filter, filter.init(jax.random.key(1)), ys)
    assert int(state.outcome) == pf.Outcome.OK
    assert float(jnp.max(history.info.approximation_error)) < 0.1


@pytest.mark.parametrize(
    ("belief", "model", "words"),
    [
        (TaylorOfMean(), pf.models.cauchy_ar1(), "the transition is no Gaussian (Cauchy); use TaylorOfLogDensity()"),
        (TaylorOfMean(), pf.models.stochastic_volatility(), "the noise of the initial depends on theta"),
        (TaylorOfMean(order=0), pf.models.sin(), "positive integer"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_cure(belief, model, words):
    with pytest.raises(pf.errors.BeliefError) as caught:
        belief.bind(model)
    assert words in str(caught.value)


def test_a_centre_where_the_model_is_not_smooth_is_refused():
    model = pf.StateSpaceModel(
        prior={"a": dist.Normal(0.0, 0.3)},
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, inputs: dist.Normal(jnp.sqrt(jnp.abs(theta["a"])) * x, 1.0),
        observation=lambda theta, x, inputs: dist.Normal(x, 0.5),
    )
    with pytest.raises(pf.errors.BeliefError, match="Choose a center"):
        TaylorOfMean(order=3, center=0.0).bind(model)
