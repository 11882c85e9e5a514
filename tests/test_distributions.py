"""Trees of distributions: their parts are independent."""

import jax
import numpy as np
import numpyro.distributions as dist

from paramfilter import distributions


def test_parts_of_a_tree_are_drawn_independently():
    num_draws = 5000
    tree = {"a": dist.Normal(0.0, 1.0), "b": dist.Normal(1.0, 2.0)}
    keys = jax.random.split(jax.random.key(0), num_draws)
    drawn = jax.vmap(lambda key: distributions.sample(key, tree))(keys)
    assert abs(np.corrcoef(drawn["a"], drawn["b"])[0, 1]) < 6 / np.sqrt(num_draws)  # false alarms: 2e-9
