"""Two beliefs put together have the mean and the (co)variance of their even mixture."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import paramfilter as pf
from paramfilter.beliefs import Chebyshev, Conjugate, CrossInterpolation, Forgetting
from paramfilter.beliefs.mixing import MomentPoints
from paramfilter.beliefs.quadratic_fit import QuadraticFit
from paramfilter.beliefs.spread import Spread
from paramfilter.model import Datum

COEFFICIENT = pf.models.linear_gaussian(phi=dist.Normal(0.2, 0.5), q=0.49)
VARIANCE = pf.models.linear_gaussian(phi=0.7, q=dist.InverseGamma(3.0, 2.0))
BOTH = pf.models.linear_gaussian(phi=dist.Normal(0.2, 0.5), q=dist.InverseGamma(3.0, 2.0))
NUM_STEPS = 200
NUM_PARTICLES, NUM_PAIRS = 200, 60


def path(seed):
    noise = 0.7 * jax.random.normal(jax.random.key(seed), (NUM_STEPS + 1,))
    return jax.lax.scan(lambda x, e: (0.6 * x + e,) * 2, jnp.zeros(()), noise)[1]


@cache
def learner(model, belief):
    """Return a belief, what it shares, and the compiled function that lets it learn from a path."""
    bound = belief.bind(model)
    shared = bound.start_shared(jnp.asarray(model.parameters.prior_draws[:64], float))

    def step(statistic, pair):
        return bound.absorb(shared, statistic, Datum(*pair, pair[1], None)), None

    return bound, shared, jax.jit(lambda xs: jax.lax.scan(step, bound.start(), (xs[:-1], xs[1:]))[0])


CASES = {
    "coefficient": (COEFFICIENT, Conjugate(), 1e-6),
    "a fading coefficient": (COEFFICIENT, Forgetting(Conjugate(), 1e6), 1e-6),
    "variance": (VARIANCE, Conjugate(), 0.02),  # the moments of 1/v are matched, those of v nearly
    "values at nodes": (COEFFICIENT, Chebyshev(33), 1e-4),
}


@pytest.mark.parametrize("case", CASES)
def test_moments_are_those_of_the_mixture(case, float64):
    model, belief, tolerance = CASES[case]
    bound, shared, learn = learner(model, belief)
    assert bound.can_mix
    z = jnp.zeros(model.parameters.dimension)
    first, second = (learn(path(seed)) for seed in (0, 1))
    moments = jax.jit(lambda statistic: bound.moments(shared, statistic, z))
    one, other, mixed = map(moments, (first, second, jax.jit(bound.mixed)(shared, first, second)))
    for name in model.parameters.names:
        means, variances = np.array([one.mean[name], other.mean[name]]), [one.variance[name], other.variance[name]]
        variance = np.mean(variances) + np.var(means)
        assert np.ptp(means) > 0.3 * np.sqrt(np.mean(variances))  # they do differ
        assert float(mixed.mean[name]) == pytest.approx(np.mean(means), abs=tolerance * np.sqrt(variance))
        assert float(mixed.variance[name]) == pytest.approx(variance, rel=3 * tolerance)


@pytest.mark.parametrize("case", CASES)
def test_a_belief_mixed_with_itself_stays(case, float64):
    model, belief, _ = CASES[case]
    bound, shared, learn = learner(model, belief)
    first = learn(path(0))
    middle = model.parameters.unconstrain({"q": 0.49} if case == "variance" else {"phi": 0.6})
    points = middle + 0.05 * jnp.arange(-2.0, 3.0)[:, None]
    density = jax.jit(lambda s: jax.vmap(lambda z: bound.log_prob(shared, s, z))(points))
    assert np.allclose(density(jax.jit(bound.mixed)(shared, first, first)), density(first), atol=0.01)


@cache
def population(num_steps):
    """Return a filter of coefficient and noise after some steps, on which paths disagree, and its state."""
    filter = pf.extended_parameter_filter(BOTH, NUM_PARTICLES, belief=CrossInterpolation(), num_ancestors=1)
    ys = pf.simulate(jax.random.key(5), BOTH, {"phi": 0.6, "q": 0.5}, num_steps)[1]
    go_on = jax.jit(lambda state: jax.lax.fori_loop(0, num_steps, lambda t, s: filter.step(s, ys[t])[0], state))
    return filter.bound_belief, go_on(filter.init(jax.random.key(6)))


@cache
def mixed_pairs(num_steps):
    """Return each particle's belief, the one it is paired with, and what they are mixed to."""
    bound, state = population(num_steps)
    turned = jax.tree.map(lambda leaf: jnp.roll(leaf, NUM_PARTICLES // 2, axis=0), state.statistics)
    mix = jax.jit(jax.vmap(bound.mixed, in_axes=(None, 0, 0)))
    return state.statistics, turned, mix(state.shared, state.statistics, turned)


def grid_moments(bound, shared, statistic):
    """Return mean and covariance of a belief in the population's standard coordinates, by summing over a grid."""
    ticks = jnp.linspace(-4.0, 4.0, 81)
    places = jnp.stack(jnp.meshgrid(ticks, ticks, indexing="ij"), axis=-1).reshape(-1, 2)
    log_prob = lambda place: bound.log_prob(shared, statistic, shared.spread.from_standard(place))
    weights = jax.nn.softmax(jax.vmap(log_prob)(places))
    mean = weights @ places
    return mean, (weights[:, None] * (places - mean)).T @ (places - mean)


def test_mixing_keeps_what_ties_parameters_together(float64):
    """Coefficient and noise given pairs of paths, against the mixture's moments on a grid.

    Over 60 pairs the errors of the means are 0.03 sd on average and 0.05 in rms, those of covariances 0.02 and 0.07.
    """
    bound, state = population(120)
    shared = state.shared
    assert shared.fit.is_good
    moments = jax.jit(jax.vmap(lambda statistic: grid_moments(bound, shared, statistic)))
    one, other, mixed = (
        moments(jax.tree.map(lambda leaf: leaf[:NUM_PAIRS], statistics)) for statistics in mixed_pairs(120)
    )
    half = 0.5 * (one[0] - other[0])
    covariance = 0.5 * (one[1] + other[1]) + half[:, :, None] * half[:, None]
    sd = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    within = np.sqrt(0.5 * np.diagonal(one[1] + other[1], axis1=1, axis2=2))
    assert np.all(np.sqrt(np.mean((half / within) ** 2, axis=0)) > 0.4)  # they do differ
    mean_errors = (mixed[0] - 0.5 * (one[0] + other[0])) / sd
    covariance_errors = (mixed[1] - covariance) / (sd[:, :, None] * sd[:, None])
    np.testing.assert_array_less(np.abs(np.mean(mean_errors, axis=0)), 0.06)
    np.testing.assert_array_less(np.sqrt(np.mean(mean_errors**2, axis=0)), 0.1)
    np.testing.assert_array_less(np.abs(np.mean(covariance_errors, axis=0)), 0.05)
    np.testing.assert_array_less(np.sqrt(np.mean(covariance_errors**2, axis=0)), 0.12)


def test_beliefs_that_no_quadratic_fits_are_not_mixed(float64):
    bound, state = population(120)
    assert bound.can_mix_now(state.shared)
    unfit = replace(state.shared, fit=replace(state.shared.fit, is_good=jnp.array(False)))
    assert not bound.can_mix_now(unfit)
    forgetting = Forgetting(CrossInterpolation(), 1e3).bind(BOTH)
    assert not forgetting.can_mix_now(unfit)


def test_pivots_mixed_with_themselves_stay(float64):
    bound, state = population(120)
    statistic = jax.tree.map(lambda leaf: leaf[0], state.statistics)
    density = jax.jit(
        lambda s: jax.vmap(lambda z: bound.log_prob(state.shared, s, z))(state.shared.spread.mean + 0.1 * state.z[:5])
    )
    once = jax.jit(bound.mixed)(state.shared, statistic, statistic)
    np.testing.assert_allclose(density(once), density(statistic), atol=1e-6)


def test_new_pivots_leave_a_mixed_belief_as_it_is(float64):
    """The model is exactly separable, so that only a constant of the log density may change."""
    bound, state = population(120)
    shared, mixed = state.shared, mixed_pairs(120)[2]
    elsewhere = Spread(shared.spread.mean + 0.3 * shared.spread.factor[:, 0], 0.8 * shared.spread.factor)
    renewed, kept = jax.jit(bound._refreshed)(replace(shared, spread=elsewhere), mixed)
    places = jax.vmap(elsewhere.from_standard)(0.8 * jax.random.normal(jax.random.key(0), (6, 2)))

    def densities(shared, statistics):
        one = jax.tree.map(lambda leaf: leaf[7], statistics)
        return jax.vmap(lambda z: bound.log_prob(shared, one, z))(places)

    before, after = jax.jit(densities)(shared, mixed), jax.jit(densities)(renewed, kept)
    assert np.any(mixed.bend.curvature[7] != 0)
    np.testing.assert_allclose(np.diff(before), np.diff(after), atol=1e-5)


def test_what_cannot_be_mixed_is_refused():
    several = pf.models.linear_gaussian(phi=dist.Normal(0.2, 0.5), r=dist.InverseGamma(3.0, 2.0))
    for model, belief in ((several, Conjugate()), (BOTH, Conjugate())):
        with pytest.raises(pf.errors.ModelError, match="cannot be mixed from 2 ancestors; use num_ancestors=1"):
            pf.ParticleFilter(model, 20, belief, num_ancestors=2)
    with pytest.raises(pf.errors.ModelError, match="cannot be mixed from 3 ancestors; use num_ancestors=2"):
        pf.ParticleFilter(COEFFICIENT, 20, Conjugate(), num_ancestors=3)


def test_a_belief_at_nodes_is_the_mixture_over_all_ancestors(float64):
    """Three ancestors with beliefs of their own, against the mixture of what each would believe, on a fine grid."""
    bound, shared, learn = learner(COEFFICIENT, Chebyshev(33))
    statistics = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(learn(path(seed)) for seed in (0, 1, 2)))
    x_prev, x, y = jnp.array([1.0, 1.5, -0.5]), jnp.array([1.2, 0.4]), jnp.zeros(())
    ancestors = jnp.array([[0, 1, 2], [2, 2, 0]])
    found = jax.jit(bound.absorb_from_many)(shared, statistics, Datum(x_prev, x, y, None), ancestors)
    grid = jnp.linspace(0.3, 0.9, 301)[:, None]
    log_prob = lambda s: jax.vmap(lambda z: bound.log_prob(shared, s, z))(grid)
    believed = jax.jit(jax.vmap(log_prob))(statistics)
    for row in range(2):
        moved = dist.Normal(grid[:, 0] * x_prev[ancestors[row]][:, None], 0.7).log_prob(x[row])
        expected = np.asarray(jax.nn.logsumexp(believed[ancestors[row]] + moved, axis=0))
        got = np.asarray(log_prob(jax.tree.map(lambda leaf, row=row: leaf[row], found)))
        bulk = expected > expected.max() - 8
        assert bulk.sum() > 60
        assert np.ptp((got - expected)[bulk]) < 5e-3


@pytest.mark.slow
@pytest.mark.parametrize("belief", [Chebyshev(33), Forgetting(Chebyshev(33), 20.0)])
def test_one_ancestor_of_several_gives_what_the_path_gives(belief, float64):
    bound, shared, learn = learner(COEFFICIENT, belief)
    one = jax.tree.map(lambda leaf: leaf[None], learn(path(0)))
    datum = Datum(jnp.array([1.0]), jnp.array([1.3]), jnp.zeros(()), None)
    points = 0.6 + 0.05 * jnp.arange(-2.0, 3.0)[:, None]
    density = lambda s: jax.vmap(lambda z: bound.log_prob(shared, jax.tree.map(lambda leaf: leaf[0], s), z))(points)
    same = jax.jit(bound.absorb_from_many)(shared, one, datum, jnp.zeros((1, 4), jnp.int32))
    np.testing.assert_allclose(density(same), density(bound.absorb_all(shared, one, datum)), atol=1e-6)


def skewed(point):
    """Return the log density of log v where v is Gamma(4): skewed, with moments that are polygamma functions."""
    return 4.0 * point[0] - jnp.exp(point[0])


def test_moments_of_a_skewed_belief_are_found_beyond_its_fitted_gaussian(float64):
    right = np.array([float(jax.scipy.special.polygamma(order, 4.0)) for order in (0, 1)])
    spread = Spread(jnp.array([1.3]), jnp.array([[0.55]]))
    prior, features = lambda z: jnp.zeros(()), lambda z: skewed(z)[None]
    fit = QuadraticFit.around(spread, prior, features, jnp.ones(1))
    fitted = fit.standard_gaussian(fit.typical)
    found = MomentPoints.around(spread, features, prior).moments(fit.typical, fitted)
    errors = [
        (1.3 + 0.55 * float(part.mean[0]) - right[0], 0.55**2 * float(part.covariance[0, 0]) / right[1] - 1)
        for part in (fitted, found)
    ]
    assert abs(errors[0][0]) > 0.02  # the fit alone misses the mean
    np.testing.assert_array_less(np.abs(errors[1]), [0.006, 0.03])
