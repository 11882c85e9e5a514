"""The compiler is a dependency too: small kernels against numpy, at the sizes where it has been wrong before.

JAX 0.10.2 on CPU returns wrong numbers, without a word, for a vmapped matrix-vector product that is reduced at once,
|A x|^2 for example: in float64 from row 16,384 on (3, 5, 6 and 7 dimensions), in float32 from row 32,768 on (3
dimensions); see jax-ml/jax#39103. That is the log-density of a Gaussian at an ordinary number of particles. So the
kernels that a filter is made of are compared with numpy in each dimension up to 8, below, at and past those rows. On
0.10.2 `squared_norm` is wrong; on 0.11.0 and later all are right.

Nothing here is random: a right compiler errs by rounding only, far below the tolerances.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.linalg import solve_triangular

NUM_PARTICLES = (1_000, 16_384, 16_385, 20_000, 40_000)
DIMENSIONS = range(1, 9)
RELATIVE_TOLERANCE = {"float32": 1e-4, "float64": 1e-11}


def squared_norm(matrix, x):
    """|A x|^2: the kernel of jax-ml/jax#39103."""
    return jnp.sum((matrix @ x) ** 2)


def quadratic_form(matrix, x):
    """x^T A x."""
    return x @ matrix @ x


def einsum_form(matrix, x):
    """x^T A x, as an einsum."""
    return jnp.einsum("i,ij,j->", x, matrix, x)


def squared_norm_of_solve(matrix, x):
    """|L^-1 x|^2 with the lower triangle L of A."""
    return jnp.sum(solve_triangular(matrix, x, lower=True) ** 2)


def moved_covariance(matrix, x):
    """A (x x^T + I) A^T, the prediction of a Kalman filter."""
    return matrix @ (jnp.outer(x, x) + jnp.eye(x.size, dtype=x.dtype)) @ matrix.T


KERNELS = {
    squared_norm: lambda a, xs: np.sum((xs @ a.T) ** 2, axis=1),
    quadratic_form: lambda a, xs: np.sum((xs @ a.T) * xs, axis=1),
    einsum_form: lambda a, xs: np.sum((xs @ a.T) * xs, axis=1),
    squared_norm_of_solve: lambda a, xs: np.sum(np.linalg.solve(np.tril(a), xs.T) ** 2, axis=0),
    moved_covariance: lambda a, xs: (xs @ a.T)[:, :, None] * (xs @ a.T)[:, None, :] + a @ a.T,
}
"""What each kernel should give, by numpy, for all rows at once."""


def wrong_rows(kernel, dtype, dimensions=DIMENSIONS):
    """Compile a kernel, compare each row with numpy, and say in words where it is wrong."""
    with jax.enable_x64(dtype == "float64"):
        compiled = jax.jit(jax.vmap(kernel, in_axes=(None, 0)))
        for dimension in dimensions:
            matrix = _well_conditioned(dimension).astype(dtype)
            for num_particles in NUM_PARTICLES:
                xs = _distinct_rows(num_particles, dimension).astype(dtype)
                expected = KERNELS[kernel](matrix.astype(np.float64), xs.astype(np.float64))
                error = np.abs(np.asarray(compiled(matrix, xs)) - expected)
                bad = error > RELATIVE_TOLERANCE[dtype] * np.max(np.abs(expected))
                if bad.any():
                    first = int(np.argmax(bad.reshape(num_particles, -1).any(axis=1)))
                    yield f"{dimension} dimensions, {num_particles} rows: wrong from row {first} on"


def _well_conditioned(dimension):
    """A full matrix whose diagonal outweighs the rest."""
    indices = np.arange(dimension * dimension, dtype=np.float64)
    return np.cos(indices).reshape(dimension, dimension) + dimension * np.eye(dimension)


def _distinct_rows(num_rows, dimension):
    """Rows of order one, no two alike, so that a row taken from elsewhere shows."""
    return np.sin(1.0 + np.arange(num_rows * dimension, dtype=np.float64)).reshape(num_rows, dimension)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_compiled_kernel_agrees_with_numpy_in_every_row(kernel, dtype):
    wrong = list(wrong_rows(kernel, dtype))
    assert not wrong, f"JAX {jax.__version__} compiles {kernel.__name__} wrongly: " + "; ".join(wrong)


def test_a_kernel_that_is_wrong_is_noticed(monkeypatch):
    monkeypatch.setitem(KERNELS, squared_norm, lambda a, xs: ((xs @ a.T) ** 2).sum(axis=1) * 1.001)
    wrong = list(wrong_rows(squared_norm, "float32", dimensions=[3]))
    assert wrong[0].startswith("3 dimensions, 1000 rows: wrong from row")
