"""Kriging between few nodes: close to the log likelihood, and cautious where nothing is known."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.support.weighted_nodes import nodes_of

import paramfilter as pf
from paramfilter.nodes.renewal import renew_by_surface
from paramfilter.nodes.surfaces import fit_surface
from paramfilter.nodes.surfaces.kriging import Kriging, fit_kriging
from paramfilter.outcome import Outcome
from paramfilter.tracing import on_host

BENT = lambda z: -1.5 * (z[:, 0] - 0.3 * z[:, 1] ** 2) ** 2 - z[:, 1] ** 2 + 7.0


def test_few_nodes_are_kriged():
    assert isinstance(fit_surface(*nodes_of(BENT, size=100)), Kriging)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_a_gaussian_is_found(dimension):
    gaussian = lambda z: -2.0 * np.sum((z - 0.3) ** 2, axis=1) + 5.0
    surface = fit_kriging(*nodes_of(gaussian, dimension, size=64))
    near = 0.3 + 0.3 * np.asarray(jax.random.normal(jax.random.key(1), (50, dimension)), float)
    found, is_inside = surface.at(near)
    assert np.all(is_inside)
    missed = found - gaussian(near)
    assert np.std(missed) < 0.1 and -0.3 < np.mean(missed) < 0.05  # some caution, nearly the same everywhere


def test_the_misfit_is_what_new_points_see():
    """A bent log likelihood, 64 nodes; the misfit is an estimate from these, so it is off by some ten percent."""
    surface = fit_kriging(*nodes_of(BENT, size=64))
    new, values, _, weights = nodes_of(BENT, seed=5, size=2000)
    missed = np.sqrt(np.sum(weights * (surface.at(new)[0] - values) ** 2))
    assert 0.3 * surface.misfit < missed < 2 * surface.misfit
    assert surface.misfit < 0.2


def test_little_is_promised_where_no_node_is():
    surface = fit_kriging(*nodes_of(BENT, size=64))
    far = np.array([[4.0, -4.0], [40.0, 0.0]])
    found, is_inside = surface.at(far)
    assert np.all(found < surface.top - 5) and not is_inside[1]


def test_traced_and_plain_surfaces_are_the_same():
    """In single and in double precision."""
    given = nodes_of(BENT, size=128)
    point = np.array([[0.3, 0.2], [-0.5, 1.0]])
    plain = fit_kriging(*given).at(point)[0]
    single = [jnp.asarray(part, jnp.float32) for part in given]
    traced = jax.jit(lambda *given: fit_kriging(*given).at(jnp.asarray(point, jnp.float32))[0])(*single)
    np.testing.assert_allclose(traced, plain, atol=0.03)


LEVEL = pf.StateSpaceModel(
    prior={"level_sd": dist.LogNormal(-1.0, 1.0), "noise_sd": dist.LogNormal(0.0, 1.0)},
    initial=lambda theta, inputs: dist.Normal(jnp.zeros(3), jnp.array([1.0, 1e-3, 1.0])).to_event(1),
    transition=lambda theta, x, inputs: dist.Normal(
        jnp.stack([x[0] + x[1], x[1], x[2]]), jnp.array([1.0, 0.0, 0.0]) * theta["level_sd"] + 1e-6
    ).to_event(1),
    observation=lambda theta, x, inputs: dist.Normal(x[0] + x[2], theta["noise_sd"]),
)
FEW = pf.node_filter(LEVEL, 48, num_kept=40)


@pytest.fixture(scope="module")
def learned():
    """The state after 60 observations of a level, of which 40 are kept, and the observations."""
    ys = np.asarray(pf.simulate(jax.random.key(3), LEVEL, {"level_sd": 0.3, "noise_sd": 1.0}, 60)[1])
    return pf.run(FEW, FEW.init(jax.random.key(0)), ys)[0], ys


def test_after_a_surface_every_node_has_covariances(learned):
    """Numbers between those of two covariances need not be one; of a nearly singular one they are none."""
    state = renew_by_surface(FEW.engine, on_host(learned[0]))
    covariances = np.moveaxis(np.asarray(state.nodes.x["covariance"], float), -1, 0)
    smallest = np.linalg.eigvalsh(covariances)[:, 0]
    assert np.all(smallest > -1e-6)


def test_nodes_that_a_surface_would_lose_are_kept(learned):
    """A log likelihood with a jump: the surface promises what no node has, and all new nodes would be refused."""
    state = on_host(learned[0])
    broken = np.where(np.arange(48) % 2 == 0, 0.0, -30.0).astype(np.float32)
    state = replace(state, nodes=replace(state.nodes, log_likelihood=broken, log_total=np.float32(1e4)))
    after = renew_by_surface(FEW.engine, state)
    np.testing.assert_array_equal(after.nodes.z, state.nodes.z)
    assert int(after.outcome) & int(Outcome.SURFACE_INACCURATE)


@pytest.mark.slow
def test_a_fleet_of_few_nodes_is_near_the_exact_posterior():
    """128 nodes, 16 series of 100 observations, all kept.

    The seed is fixed; the bar is twice what was measured.
    """
    model = pf.models.linear_gaussian(phi=dist.Uniform(-1.0, 1.0), r=dist.LogNormal(0.0, 1.0))
    fleet = pf.Fleet(pf.node_filter(model, 128, num_kept=128))
    keys = jax.random.split(jax.random.key(5), 16)
    truth = {"phi": 0.8, "r": 1.0}
    ys = np.asarray(jax.vmap(lambda key: pf.simulate(key, model, truth, 100)[1])(keys))
    state = fleet.run(fleet.init(jax.random.key(1), range(16)), ys)
    mean, errors = fleet.mean(state), []
    for row, series in enumerate(ys):
        exact = pf.references.kalman_grid(model, series)
        errors += [(mean[name][row] - exact.mean()[name]) / exact.sd()[name] for name in truth]
    assert np.sqrt(np.mean(np.square(errors))) < 0.06
