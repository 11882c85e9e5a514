"""Laws with a long and a short side, and a kernel that keeps them so."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paramfilter as pf
from paramfilter.beliefs import RenewingKernel
from paramfilter.beliefs.two_piece import MOST_UNEVEN, SIDE, TwoPiece, two_piece_of


@given(st.floats(-3, 3), st.floats(0.21, 4.9), st.floats(-10, 10))
def test_the_way_back_is_the_way_back(centre, above, z):
    shape = TwoPiece(jnp.array([centre]), jnp.array([above]))
    assert float(shape.uneven(shape.evened(jnp.array([z])))[0]) == pytest.approx(z, abs=1e-5)


def test_sides_are_measured_at_the_quantiles_of_a_normal_law():
    """A normal law whose upper side is four times as long, from weighted draws of an even one.

    Quantiles of 40,000 draws with weights of this kind have standard errors below 0.02.
    """
    z = 6.0 * jax.random.normal(jax.random.key(0), (40_000, 1))
    length = jnp.where(z[:, 0] < 1.0, 1.0, 4.0)
    log_weights = -0.5 * ((z[:, 0] - 1.0) / length) ** 2 - dist.Normal(0.0, 6.0).log_prob(z[:, 0])
    # Four fifths of this law are above 1, so its median is not where the sides meet.
    ordered = lambda share: 1.0 + 4.0 * dist.Normal().icdf(share)
    centre = ordered(0.5 + (0.5 - 0.2) / 1.6)
    shape = two_piece_of(z, log_weights)
    assert float(shape.centre[0]) == pytest.approx(float(centre), abs=0.12)
    low_share, high_share = (float(dist.Normal().cdf(side)) for side in (-SIDE, SIDE))
    low = 1.0 + dist.Normal().icdf(low_share / 0.4)
    high = ordered(0.5 + (high_share - 0.2) / 1.6)
    wanted = np.sqrt((high - centre) / (centre - low))
    assert float(shape.above[0]) == pytest.approx(float(wanted), rel=0.05)
    assert float(shape.below[0] * shape.above[0]) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(
    "z", [np.zeros(7), np.r_[np.zeros(6), 1.0], np.array([0.0])], ids=["all alike", "one off", "one"]
)
def test_few_or_equal_values_have_a_shape(z):
    shape = two_piece_of(jnp.asarray(z, float)[:, None], jnp.zeros(len(z)))
    for side in (shape.below, shape.above):
        assert 1 / MOST_UNEVEN <= float(side[0]) <= MOST_UNEVEN


@pytest.mark.parametrize(("weights_are_exact", "keeps_it"), [(False, True), (True, False)])
def test_ten_renewals_leave_a_skewed_law_skewed(weights_are_exact, keeps_it):
    """Values of a skewed law are resampled and renewed ten times, and nothing is learnt in between.

    The kernel alone multiplies skewness by 0.76 each time: what it leaves after ten times is below a tenth.
    """
    model = pf.StateSpaceModel(
        prior={"a": dist.Normal(0.0, 2.0)},
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, inputs: dist.Normal(x, 1.0),
        observation=lambda theta, x, inputs: dist.Normal(theta["a"] + x, 1.0),
    )
    belief, num_values = RenewingKernel(weights_are_exact=weights_are_exact).bind(model), 20_000
    z = jnp.log(jax.random.gamma(jax.random.key(0), 1.0, (num_values, 1)))
    even, all_fresh = jnp.zeros(num_values), jnp.ones(num_values, bool)
    skewness = lambda z: float(jnp.mean((z - z.mean()) ** 3) / jnp.std(z) ** 3)
    start, spread = skewness(z), float(jnp.std(z))
    shared = belief.start_shared(z)
    for key in jax.random.split(jax.random.key(1), 10):
        shared, due = belief.regroup(shared, None, z, even, all_fresh)
        z = jax.vmap(belief.draw, (0, None, 0, 0))(jax.random.split(key, num_values), shared, due, z).z
        shared = belief.witness(None, shared, None, z, even, None)
    assert start == pytest.approx(-1.14, abs=0.1)
    assert float(jnp.std(z)) == pytest.approx(spread, rel=0.1)
    assert (skewness(z) < 0.6 * start) == keeps_it
