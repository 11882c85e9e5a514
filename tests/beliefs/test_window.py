"""The window's coordinates: there and back, and the stretch in between."""

import jax
import jax.numpy as jnp
import numpy as np

from paramfilter.beliefs.window import SHARPNESS, Places, Window


def test_stretch_is_the_derivative_of_the_map(float64):
    window = Window(jnp.array([0.5, -2.0]), jnp.array([3.0, 0.1]), jnp.array([0, 40]))
    u = jnp.array([0.3, -0.7])
    np.testing.assert_allclose(window.log_stretch(u), np.linalg.slogdet(jax.jacfwd(window.to_z)(u))[1], rtol=1e-12)
    np.testing.assert_allclose(window.to_u(window.to_z(u)), u, rtol=1e-10)


def test_fixed_places_are_looked_up_where_the_map_puts_them(float64):
    places = Places(np.linspace(-1.0, 1.0, 9))
    for level in (0, 20, len(SHARPNESS) - 1):
        window = Window(jnp.array([0.5]), jnp.array([3.0]), jnp.array([level]))
        u = jnp.asarray(places.u)[:, None]
        np.testing.assert_allclose(window.at(0, places), jax.vmap(window.to_z)(u)[:, 0], rtol=1e-12)
        np.testing.assert_allclose(window.log_slope_at(0, places), jax.vmap(window.log_stretch)(u), rtol=1e-9)


def test_the_map_is_right_in_float32_at_every_sharpness():
    """As good as XLA's own sinh: a few roundings of float32, in z and there and back in u."""
    u = np.linspace(-1.0, 1.0, 2001)
    for level, sharpness in enumerate(SHARPNESS):
        window = Window(jnp.zeros(1), jnp.ones(1), jnp.array([level]))
        z = jax.vmap(window.to_z)(jnp.asarray(u, jnp.float32)[:, None])
        np.testing.assert_allclose(z[:, 0], np.sinh(sharpness * u) / np.sinh(sharpness), atol=2e-6)
        np.testing.assert_allclose(jax.vmap(window.to_u)(z)[:, 0], u, atol=1e-6)
