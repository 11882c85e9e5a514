"""A plan with the coefficient integrated out has the predictive density of the Gaussian that includes it."""

import jax.numpy as jnp
import numpyro.distributions as dist
import pytest

import paramfilter as pf
from paramfilter.proposals import Guided


def test_predictive_density_includes_the_spread_of_the_coefficient(float64):
    model = pf.models.linear_gaussian(phi=dist.Normal(0.3, 0.5), q=0.7, r=0.2)
    belief, proposal = pf.beliefs.Conjugate().bind(model), Guided().bind(model)
    x_prev, y = jnp.array(2.0), jnp.array(1.9)
    marginal = belief.marginal_transition(None, belief.init(), jnp.array([5.0]), x_prev, None)
    assert marginal is not None
    plan = proposal.plan(model.parameters.constrain(marginal.z), x_prev, y, None, marginal.loading)
    # y = phi x_prev + N(0, q) + N(0, r) with phi ~ N(0.3, 0.5^2); where the particle drew phi plays no part.
    expected = dist.Normal(0.6, jnp.sqrt(0.5**2 * 4.0 + 0.7 + 0.2)).log_prob(1.9)
    assert float(plan.log_predictive) == pytest.approx(float(expected), abs=1e-10)
