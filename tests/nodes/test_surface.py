"""A surface finds a polynomial exactly, knows what it misses, and where it ends."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.support.weighted_nodes import nodes_of

from paramfilter.nodes.surfaces.polynomial import features, fit_polynomial

QUARTIC = lambda z: -3.0 * (z[:, 0] - 0.5 * z[:, 1] ** 2) ** 2 - z[:, 1] ** 2 + 7.0
WAVY = lambda z: -3.0 * z[:, 0] ** 2 + 0.5 * np.sin(9 * z[:, 1])


def test_a_quartic_is_found_exactly():
    z, values, log_prior, weights = nodes_of(QUARTIC)
    surface = fit_polynomial(z, values, log_prior, weights)
    near = 0.5 * np.asarray(jax.random.normal(jax.random.key(1), (50, 2)), float)
    np.testing.assert_allclose(surface.at(near)[0], QUARTIC(near), atol=1e-3)
    assert surface.misfit < 1e-3


def test_nodes_that_came_from_the_prior_do_not_spoil_the_fit():
    z, values, log_prior, weights = nodes_of(QUARTIC)
    far = np.asarray(50.0 * jax.random.normal(jax.random.key(3), (20, 2)), float)
    surface = fit_polynomial(
        np.concatenate([z, far]),
        np.concatenate([values, np.full(20, -1e5)]),
        np.concatenate([log_prior, np.full(20, -3.0)]),
        np.concatenate([weights, np.zeros(20)]),
    )
    assert surface.misfit < 1e-3


def test_the_misfit_is_what_new_points_see():
    z, values, log_prior, weights = nodes_of(WAVY)
    surface = fit_polynomial(z, values, log_prior, weights)
    new, new_values, _, new_weights = nodes_of(WAVY, seed=5, size=2000)
    missed = np.sqrt(np.sum(new_weights * (surface.at(new)[0] - new_values) ** 2))
    assert surface.misfit == pytest.approx(missed, rel=0.3)


def test_far_points_are_outside():
    surface = fit_polynomial(*nodes_of(QUARTIC))
    assert not np.any(surface.at(np.array([[40.0, 0.0], [0.0, -40.0]]))[1])
    assert np.all(surface.at(np.zeros((1, 2)))[1])


def test_traced_and_plain_surfaces_are_the_same():
    given = nodes_of(QUARTIC)
    plain = fit_polynomial(*given)
    traced = jax.jit(fit_polynomial)(*(jnp.asarray(part, jnp.float32) for part in given))
    point = np.array([[0.3, 0.2]])
    found = traced.at(jnp.asarray(point, jnp.float32))[0]
    np.testing.assert_allclose(found, plain.at(point)[0], atol=0.02)


def test_monomials_stand_in_order_of_degree():
    np.testing.assert_allclose(features(np.array([[2.0, 3.0]]), 6), [[1, 2, 3, 4, 6, 9]])
