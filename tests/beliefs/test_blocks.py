"""Blocks are the exact posterior where the blocks are independent, and are refused where they are not."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import paramfilter as pf
from paramfilter.beliefs import Chebyshev, Conjugate, CrossInterpolation, PointMass
from paramfilter.beliefs.blocks import Blocks
from paramfilter.model import Datum


def phi_and_r():
    """phi moves the state, r is the noise of what is seen; r comes first in z, second in the blocks below."""
    return pf.StateSpaceModel(
        prior={"r": dist.LogNormal(-1.0, 0.5), "phi": dist.Normal(0.3, 0.2)},
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x, 1.0),
        observation=lambda theta, x, inputs: dist.Normal(x, theta["r"]),
    )


def two_blocks():
    return Blocks({"phi": Conjugate(), "r": Chebyshev()})


@pytest.fixture(scope="module")
def after_path():
    """Belief after a known path, and the joint posterior of (phi, log r) on a grid."""
    with jax.enable_x64(True):
        model = phi_and_r()
        xs, ys = pf.simulate(jax.random.key(0), model, {"phi": 0.6, "r": 0.3}, 50)
        belief = two_blocks().bind(model)
        shared = belief.start_shared(jnp.asarray(model.parameters.prior_draws[:10]))

        def absorb(statistic, step):
            x_prev, x, y = step
            return belief.absorb(shared, statistic, Datum(x_prev, x, y, None)), None

        statistic = jax.jit(lambda: jax.lax.scan(absorb, belief.start(), (xs[:-1], xs[1:], ys[1:]))[0])()
    x_prev, x, y = np.asarray(xs[:-1]), np.asarray(xs[1:]), np.asarray(ys[1:])
    phi, log_r = np.meshgrid(np.linspace(-0.3, 1.3, 401), np.linspace(-2.2, -0.3, 401), indexing="ij")
    log_density = stats.norm.logpdf(phi, 0.3, 0.2) + stats.norm.logpdf(log_r, -1.0, 0.5)
    log_density -= 0.5 * (np.sum(x**2) - 2 * phi * np.sum(x * x_prev) + phi**2 * np.sum(x_prev**2))
    log_density -= len(y) * log_r + 0.5 * np.sum((y - x) ** 2) * np.exp(-2 * log_r)
    weights = np.exp(log_density - log_density.max())
    return belief, shared, statistic, phi, log_r, weights / weights.sum()


def test_two_blocks_have_the_moments_of_the_joint_posterior(after_path, float64):
    belief, shared, statistic, phi, log_r, weights = after_path
    moments = jax.jit(belief.moments)(shared, statistic, jnp.zeros(2))
    for name, values in {"phi": phi, "r": np.exp(log_r)}.items():
        mean = np.sum(weights * values)
        assert float(moments.mean[name]) == pytest.approx(mean, rel=1e-5)
        assert float(moments.variance[name]) == pytest.approx(np.sum(weights * (values - mean) ** 2), rel=1e-3)
    assert float(jax.jit(belief.approximation_error)(shared, statistic)) < 1e-3


def test_density_of_two_blocks_is_that_of_the_joint_posterior(after_path, float64):
    belief, shared, statistic, phi, log_r, weights = after_path
    cell = (phi[1, 0] - phi[0, 0]) * (log_r[0, 1] - log_r[0, 0])
    log_prob = jax.jit(lambda z: belief.log_prob(shared, statistic, z))
    for row, column in [(200, 220), (230, 200), (180, 240)]:
        z = jnp.array([log_r[row, column], phi[row, column]])
        assert float(log_prob(z)) == pytest.approx(np.log(weights[row, column] / cell), abs=1e-3)


def test_draws_of_two_blocks_stand_in_their_places(after_path, float64):
    belief, shared, statistic, phi, log_r, weights = after_path
    num_draws = 4000
    draw = jax.vmap(lambda key: belief.draw(key, shared, statistic, jnp.zeros(2)).z)
    draws = np.asarray(jax.jit(draw)(jax.random.split(jax.random.key(1), num_draws)))
    for column, values in enumerate([log_r, phi]):
        mean = np.sum(weights * values)
        standard_error = np.sqrt(np.sum(weights * (values - mean) ** 2) / num_draws)
        assert abs(draws[:, column].mean() - mean) < 5.5 * standard_error  # false alarms: 4e-8 each
    correlation = np.corrcoef(draws.T)[0, 1]
    assert abs(correlation) < 5.5 / np.sqrt(num_draws)  # independent given the path; false alarms: 4e-8


@pytest.mark.slow
def test_tied_parameters_are_refused_by_name():
    model = pf.models.linear_gaussian(
        phi=dist.Normal(0.3, 0.2), q=dist.InverseGamma(3.0, 2.0), r=dist.InverseGamma(3.0, 2.0)
    )
    with pytest.raises(pf.BeliefError, match=r'"phi" and "q".*one block'):
        Blocks({"phi": Conjugate(), "r": Conjugate(), "q": Conjugate()}).bind(model)


def test_parameters_tied_by_the_initial_law_alone_are_refused():
    model = pf.StateSpaceModel(
        prior={"a": dist.Normal(0.0, 1.0), "b": dist.Normal(0.0, 1.0)},
        initial=lambda theta, inputs: dist.Normal(theta["a"] * theta["b"], 1.0),
        transition=lambda theta, x, inputs: dist.Normal(theta["a"] * x, 1.0),
        observation=lambda theta, x, inputs: dist.Normal(x + theta["b"], 1.0),
    )
    with pytest.raises(pf.BeliefError, match='"a" and "b"'):
        Blocks({"a": Chebyshev(), "b": Chebyshev()}).bind(model)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"phi": Conjugate()}, r"missing: \['r'\]"),
        ({"phi": Conjugate(), ("phi", "r"): CrossInterpolation()}, r"named twice: \['phi'\]"),
        ({"phi": Conjugate(), "r": Chebyshev(), "s": Chebyshev()}, r"unknown: \['s'\]"),
        ({"phi": Conjugate(), "r": Conjugate()}, r"in the block \['r'\]: Conjugate needs"),
    ],
)
def test_wrong_blocks_are_refused_with_the_reason(parts, words):
    with pytest.raises(pf.BeliefError, match=words):
        Blocks(parts).bind(phi_and_r())


def test_what_is_no_belief_is_refused():
    with pytest.raises(pf.BeliefError, match="for a belief"):
        Blocks({"phi": "Conjugate"})  # pyright: ignore[reportArgumentType]


def test_blocks_are_values_that_can_be_compared_and_hashed():
    assert two_blocks() == two_blocks() and hash(two_blocks()) == hash(two_blocks())
    assert two_blocks() == Blocks([("phi", Conjugate()), (("r",), Chebyshev())])


@pytest.mark.slow
def test_filter_with_blocks_of_every_kind_runs_and_learns():
    model = pf.StateSpaceModel(
        prior={"r": dist.LogNormal(-1.0, 0.5), "phi": dist.Normal(0.3, 0.2), "m": dist.Normal(0.0, 1.0)},
        initial=lambda theta, inputs: dist.Normal(jnp.zeros(2), 1.0).to_event(1),
        transition=lambda theta, x, inputs: dist.Normal(
            jnp.stack([theta["phi"] * x[0], 0.5 * x[1] + theta["m"]]), 1.0
        ).to_event(1),
        observation=lambda theta, x, inputs: dist.Normal(x, theta["r"]).to_event(1),
    )
    _, ys = pf.simulate(jax.random.key(0), model, {"r": 0.5, "phi": 0.6, "m": 1.0}, 60)
    belief = Blocks({"phi": CrossInterpolation(num_pivots=3), "m": Conjugate(), "r": PointMass()})
    particle_filter = pf.ParticleFilter(model, 200, belief)
    state, _ = pf.run(particle_filter, particle_filter.init(jax.random.key(1)), ys)
    assert int(state.outcome) == 0
    mean, sd = (dict(zip(model.prior, part(state.z, axis=0).tolist(), strict=True)) for part in (jnp.mean, jnp.std))
    # Posterior sds are about 0.1 (phi) and 0.14 (m): limits several of them away, so that only a mistake fails.
    assert abs(mean["m"] - 1.0) < 1.0 and 0.02 < sd["m"] < 0.4
    assert abs(mean["phi"] - 0.5) < 0.5 and 0.02 < sd["phi"] < 0.3
