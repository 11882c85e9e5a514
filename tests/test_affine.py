"""Linear or not is read off the program: branches that inputs switch on count, and bends that are far away."""

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
import pytest

import paramfilter as pf
from paramfilter.errors import ModelError
from paramfilter.inspect.affine import AFFINE, BENT, FREE, UNKNOWN, affinity

A = jnp.eye(3)

PROGRAMS = {
    "a matrix that theta scales": (lambda theta, x: (theta * A) @ x + theta, AFFINE),
    "a linear system": (lambda theta, x: jnp.linalg.solve(A + theta * A, x), AFFINE),
    "another entry set": (lambda theta, x: jnp.zeros(4).at[:3].set(x).at[0].add(theta), AFFINE),
    "entries by an index that theta gives": (lambda theta, x: x[jnp.int32(theta)], AFFINE),
    "a branch by theta": (lambda theta, x: jax.lax.cond(theta > 0, lambda: x, lambda: 2 * x), AFFINE),
    "first power": (lambda theta, x: x**1, AFFINE),
    "no x at all": (lambda theta, x: jax.nn.softplus(theta), FREE),
    "a product of entries": (lambda theta, x: x[0] * x[1], BENT),
    "a quotient": (lambda theta, x: theta / x, BENT),
    "a limit far away": (lambda theta, x: jnp.minimum(x, 1e6), BENT),
    "a bend in one branch": (lambda theta, x: jnp.where(theta > 9, jnp.sin(x), x), BENT),
    "a bend in a branch not taken": (lambda theta, x: jax.lax.cond(theta > 9, jnp.sin, lambda x: x, x), BENT),
    "a branch by x": (lambda theta, x: jnp.where(x > 0, x, 2 * x), BENT),
    "an index by x": (lambda theta, x: A[x[0].astype(int)], BENT),
    "rounding": (lambda theta, x: x.astype(int).astype(float), BENT),
    "a loop that bends": (lambda theta, x: jax.lax.fori_loop(0, 3, lambda _, one: jnp.sin(one), x), BENT),
    "a loop that may bend": (lambda theta, x: jax.lax.fori_loop(0, 3, lambda _, one: theta * one, x), UNKNOWN),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_how_a_program_depends_on_x(name):
    function, expected = PROGRAMS[name]
    assert affinity(function, 1)(0.5, jnp.arange(1.0, 4.0)) == [expected]


def walk(transition=None, observation=None, **options):
    return pf.StateSpaceModel(
        prior={"a": dist.Normal(0.0, 1.0)},
        initial=lambda p, u: dist.Normal(0.0, 1.0),
        transition=transition or (lambda p, x, u: dist.Normal(p["a"] * x, 1.0)),
        observation=observation or (lambda p, x, u: dist.Normal(x, 1.0)),
        **options,
    )


BENT_MODELS = {
    "an input that is zero in all typical rows": walk(
        lambda p, x, u: dist.Normal(0.9 * x + u["on"] * jnp.sin(p["a"] * x), 1.0), typical_inputs={"on": jnp.zeros(5)}
    ),
    "a sensor that saturates far away": walk(observation=lambda p, x, u: dist.Normal(jnp.minimum(x, 1e5), 1.0)),
    "a scale that grows far away": walk(observation=lambda p, x, u: dist.Normal(x, jnp.maximum(1.0, x - 1e5))),
}


@pytest.mark.parametrize("name", BENT_MODELS)
def test_the_kalman_filter_refuses_what_bends_where_nobody_tried(name):
    with pytest.raises(ModelError, match="linear and Gaussian given theta"):
        pf.node_filter(BENT_MODELS[name], 16, inner=pf.nodes.Kalman)


def test_a_loop_that_is_linear_is_found_linear_by_trying():
    model = walk(lambda p, x, u: dist.Normal(jax.lax.fori_loop(0, 3, lambda _, one: p["a"] * one, x), 1.0))
    assert pf.node_filter(model, 16).engine.inner.is_exact


def test_a_loop_that_bends_is_refused_by_trying():
    model = walk(
        lambda p, x, u: dist.Normal(
            jax.lax.fori_loop(0, 3, lambda _, pair: (pair[1], pair[0] ** 2), (x, p["a"] * x))[0], 1.0
        )
    )
    with pytest.raises(ModelError, match="its mean is not linear in x"):
        pf.node_filter(model, 16, inner=pf.nodes.Kalman)
