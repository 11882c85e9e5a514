"""The window's coordinates: there and back, and the stretch in between."""

import jax
import jax.numpy as jnp
import numpy as np

from paramfilter.beliefs.window import Window


def test_stretch_is_the_derivative_of_the_map(float64):
    window = Window(jnp.array([0.5, -2.0]), jnp.array([3.0, 0.1]), jnp.array([0.01, 6.0]))
    u = jnp.array([0.3, -0.7])
    np.testing.assert_allclose(window.log_stretch(u), np.linalg.slogdet(jax.jacfwd(window.to_z)(u))[1], rtol=1e-12)
    np.testing.assert_allclose(window.to_u(window.to_z(u)), u, rtol=1e-10)
