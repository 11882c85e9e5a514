"""Trees of distributions: their parts are independent, and may be missing."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

from paramfilter import distributions


def test_parts_of_a_tree_are_drawn_independently():
    num_draws = 5000
    tree = {"a": dist.Normal(0.0, 1.0), "b": dist.Normal(1.0, 2.0)}
    keys = jax.random.split(jax.random.key(0), num_draws)
    drawn = jax.vmap(lambda key: distributions.sample(key, tree))(keys)
    assert abs(np.corrcoef(drawn["a"], drawn["b"])[0, 1]) < 6 / np.sqrt(num_draws)  # false alarms: 2e-9


def test_components_can_be_missing_where_the_others_can_be_scored_alone():
    joint = dist.MultivariateNormal(jnp.array([1.0, -1.0]), jnp.array([[2.0, 0.6], [0.6, 0.5]]))
    score = distributions.log_prob_where_observed(joint, jnp.array([jnp.nan, 0.3]))
    assert float(score) == pytest.approx(float(dist.Normal(-1.0, 0.5**0.5).log_prob(0.3)), rel=1e-5)
    assert distributions.missing_only_whole(joint) is None
    assert distributions.missing_only_whole(dist.Normal(jnp.zeros(2), 1.0).to_event(1)) is None
    assert distributions.missing_only_whole(dist.Dirichlet(jnp.ones(3))) == "Dirichlet"
