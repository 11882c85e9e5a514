"""A branch that is rarely taken gives what `lax.cond` gives, and in a batch is computed for those that are due."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paramfilter.numerics.sparse import sparse_cond

counted = [0]


def costly(operands):
    """Count the rows for which it is called, in a batch or alone."""
    key, shift, x = operands

    def count(values):
        counted[0] += int(np.size(values))
        return np.zeros(np.shape(values), np.float32)

    nothing = jax.pure_callback(count, jax.ShapeDtypeStruct((), jnp.float32), shift, vmap_method="expand_dims")
    return {"x": x + shift + jax.random.uniform(key) + nothing, "twice": 2.0 * x}


def both(is_due, key, shift, x):
    return sparse_cond(is_due, costly, (key, shift, x), {"x": x, "twice": x})


@pytest.mark.slow
@pytest.mark.parametrize("due", [[], [3], [0, 17, 63], range(64)])
def test_a_batch_gives_what_each_alone_gives_and_only_those_due_pay(due):
    is_due = np.isin(np.arange(64), list(due))
    keys, shifts = jax.random.split(jax.random.key(0), 64), jnp.linspace(0.0, 1.0, 64)
    x = jnp.arange(192.0).reshape(64, 3)
    alone = [both(jnp.asarray(flag), *rest) for flag, *rest in zip(is_due, keys, shifts, x, strict=True)]
    counted[0] = 0
    together = jax.block_until_ready(jax.jit(jax.vmap(both))(jnp.asarray(is_due), keys, shifts, x))
    for name in ("x", "twice"):
        np.testing.assert_allclose(together[name], [one[name] for one in alone], rtol=1e-6)
    assert counted[0] == len(due)


def test_what_is_the_same_for_all_need_not_be_repeated():
    key, x = jax.random.key(1), jnp.arange(4.0)
    same_key = jax.vmap(both, in_axes=(0, None, None, 0))(
        jnp.array([True, False, True, False]), key, jnp.float32(0.5), x
    )
    expected = x + np.array([1.0, 0.0, 1.0, 0.0]) * (0.5 + jax.random.uniform(key))
    np.testing.assert_allclose(same_key["x"], expected, rtol=1e-6)
    same_flag = jax.vmap(both, in_axes=(None, None, None, 0))(jnp.bool_(True), key, jnp.float32(0.5), x)
    np.testing.assert_allclose(same_flag["twice"], 2 * x)
