"""Two beliefs put together have the mean and the variance of their even mixture."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import paramfilter as pf
from paramfilter.beliefs import Blocks, Chebyshev, Conjugate, CrossInterpolation, Forgetting
from paramfilter.model import Datum

COEFFICIENT = pf.models.linear_gaussian(phi=dist.Normal(0.2, 0.5), q=0.49)
VARIANCE = pf.models.linear_gaussian(phi=0.7, q=dist.InverseGamma(3.0, 2.0))
BOTH = pf.models.linear_gaussian(phi=dist.Normal(0.2, 0.5), q=dist.InverseGamma(3.0, 2.0))
NUM_STEPS = 200


def path(seed):
    noise = 0.7 * jax.random.normal(jax.random.key(seed), (NUM_STEPS + 1,))
    return jax.lax.scan(lambda x, e: (0.6 * x + e,) * 2, jnp.zeros(()), noise)[1]


def learned(bound, shared, seed):
    def step(statistic, pair):
        return bound.absorb(shared, statistic, Datum(*pair, pair[1], None)), None

    xs = path(seed)
    return jax.jit(lambda s: jax.lax.scan(step, s, (xs[:-1], xs[1:]))[0])(bound.start())


CASES = {
    "coefficient": (COEFFICIENT, Conjugate(), 1e-6),
    "a block of its own": (COEFFICIENT, Blocks({"phi": Conjugate()}), 1e-6),
    "a fading coefficient": (COEFFICIENT, Forgetting(Conjugate(), 1e6), 1e-6),
    "variance": (VARIANCE, Conjugate(), 0.02),  # the moments of 1/v are matched, those of v nearly
    "values at nodes": (COEFFICIENT, Chebyshev(33), 1e-4),
}


@pytest.mark.parametrize("case", CASES)
def test_moments_are_those_of_the_mixture(case, float64):
    model, belief, tolerance = CASES[case]
    bound = belief.bind(model)
    assert bound.can_mix
    z = jnp.zeros(model.parameters.dimension)
    shared = bound.start_shared(jnp.asarray(model.parameters.prior_draws[:64], float))
    first, second = (learned(bound, shared, seed) for seed in (0, 1))
    one, other, mixed = (
        jax.jit(bound.moments)(shared, statistic, z)
        for statistic in (first, second, bound.mixed(shared, first, second))
    )
    for name in model.parameters.names:
        means, variances = np.array([one.mean[name], other.mean[name]]), [one.variance[name], other.variance[name]]
        variance = np.mean(variances) + np.var(means)
        assert np.ptp(means) > 0.3 * np.sqrt(np.mean(variances))  # they do differ
        assert float(mixed.mean[name]) == pytest.approx(np.mean(means), abs=tolerance * np.sqrt(variance))
        assert float(mixed.variance[name]) == pytest.approx(variance, rel=3 * tolerance)


@pytest.mark.parametrize("case", CASES)
def test_a_belief_mixed_with_itself_stays(case, float64):
    model, belief, _ = CASES[case]
    bound = belief.bind(model)
    shared = bound.start_shared(jnp.asarray(model.parameters.prior_draws[:64], float))
    first = learned(bound, shared, 0)
    middle = model.parameters.unconstrain({"q": 0.49} if case == "variance" else {"phi": 0.6})
    points = middle + 0.05 * jnp.arange(-2.0, 3.0)[:, None]
    density = jax.jit(lambda s: jax.vmap(lambda z: bound.log_prob(shared, s, z))(points))
    assert np.allclose(density(bound.mixed(shared, first, first)), density(first), atol=0.01)


def test_what_cannot_be_mixed_is_refused():
    several = pf.models.linear_gaussian(phi=dist.Normal(0.2, 0.5), r=dist.InverseGamma(3.0, 2.0))
    for model, belief in ((several, Conjugate()), (BOTH, Conjugate()), (COEFFICIENT, CrossInterpolation())):
        with pytest.raises(pf.ModelError, match="cannot be mixed from two ancestors; use num_ancestors=1"):
            pf.ParticleFilter(model, 20, belief, num_ancestors=2)
    with pytest.raises(pf.ModelError, match=r"must be 1 \(the path\) or 2"):
        pf.ParticleFilter(COEFFICIENT, 20, Conjugate(), num_ancestors=3)
