"""Lattices fill the cube, and a proposal's density is the density of its draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paramfilter.gaussian import Gaussian
from paramfilter.nodes.lattice import lattice, normal_quantile, shifted
from paramfilter.nodes.proposals import mixture_of, normal_of


@pytest.mark.parametrize(("dimension", "gain"), [(2, 30), (5, 3), (12, 1)])
def test_a_lattice_averages_smooth_functions_better_than_chance(dimension, gain):
    u = np.asarray(shifted(jax.random.key(1), lattice(1024, dimension)))
    product = np.prod(1 + 0.5 * np.cos(2 * np.pi * u), axis=1)  # integral 1, sd sqrt(1.125^d - 1)
    by_chance = np.sqrt((1.125**dimension - 1) / 1024)
    assert abs(np.mean(product) - 1) < by_chance / gain


def test_every_coordinate_of_a_lattice_is_spread_evenly():
    for column in lattice(256, 14).T:
        np.testing.assert_allclose(np.sort(column), np.arange(256) / 256, atol=1e-12)


def some_mixture(dimension):
    drawn = np.asarray(jax.random.normal(jax.random.key(dimension), (300, dimension + 1)), float)
    mixed = drawn[:, :dimension] @ (np.eye(dimension) + 0.5 * np.ones((dimension, dimension))) + 1.0
    prior = Gaussian(np.full(dimension, 30.0), 3.0 * np.eye(dimension))  # apart from the rest: its share shows
    return mixture_of(mixed, drawn[:, -1], drawn[:, -1] / 2, np.asarray(0.7), prior, 512, mixed.shape[1] >= 5)


@pytest.mark.parametrize("dimension", [1, 3])
def test_a_mixture_has_the_density_of_its_draws(dimension):
    mixture = some_mixture(dimension)
    u = np.asarray(shifted(jax.random.key(0), lattice(65536, dimension + 2)), np.float64)
    z = mixture.at(np.asarray(normal_quantile(jnp.asarray(u[:, :-2])), np.float64), u[:, -2:])
    # A known density has the integral 1, by importance sampling from the mixture: near the nodes and from the prior.
    target = Gaussian(mixture.around.mean, 1.2 * mixture.around.scale)
    ratios = np.exp(target.log_density(z) - mixture.log_density(z))
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.01)
    assert np.mean(np.exp(mixture.prior.log_density(z) - mixture.log_density(z))) == pytest.approx(1.0, abs=0.01)
    # And a set has the share of the mixture that its density says.
    is_inside = z[:, 0] < mixture.around.mean[0]
    assert np.mean(ratios * is_inside) == pytest.approx(0.5, abs=0.01)


def test_traced_and_plain_proposals_are_the_same():
    mixture = some_mixture(2)
    z = np.asarray(jax.random.normal(jax.random.key(0), (10, 2)), float)
    as_jax = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), mixture)
    found = jax.jit(lambda law, z: law.log_density(z))(as_jax, jnp.asarray(z, jnp.float32))
    np.testing.assert_allclose(found, mixture.log_density(z), rtol=1e-4, atol=1e-4)


def test_weighted_nodes_give_their_mean_and_covariance():
    z = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 4.0], [2.0, 4.0]])
    found = normal_of(z, np.full(4, 0.25))
    np.testing.assert_allclose(found.mean, [1.0, 2.0])
    np.testing.assert_allclose(found.scale @ found.scale.T, np.diag([1.0, 4.0]), atol=1e-4)
