"""Taylor coefficients against mpmath, for a table of functions tagged by what makes each one hard.

The reference is `mpmath.taylor` with 50 digits, of the same function written a second time. float64 has to
agree to a relative 1e-10 (or to 1e-13 of the largest coefficient, for those which are zero or nearly so).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import lax
from jax.scipy import special

from paramfilter.polynomials import MonomialBasis, taylor_coefficients

DIGITS = 50
RELATIVE, ABSOLUTE = 1e-10, 1e-13
RELATIVE_FLOAT32 = 1e-4  # 800 roundings; digamma and polygamma of float32 are good to about 1e-5 themselves


class Problem(NamedTuple):
    function: Callable[[jax.Array], jax.Array]
    reference: Callable[[mp.mpf], Any]
    center: float
    degree: int = 7


def log_sigmoid(x):
    return -mp.log1p(mp.exp(-x))


def normal_log_density(z):
    return -z * z / 2 - mp.log(2 * mp.pi) / 2


def log_binomial_coefficient(n, k):
    return mp.loggamma(n + 1) - mp.loggamma(k + 1) - mp.loggamma(n - k + 1)


def determinant(x):
    return (2 + x) * 3 - (1 + x / 2) ** 2


def matrix_at(x):
    # made anew each time: JAX 0.12.0.1 keeps a numpy array in float64 once it was used with 64-bit numbers on
    return jnp.array([[2.0, 1.0], [1.0, 3.0]]) + x * jnp.array([[1.0, 0.5], [0.5, 0.0]])


ELEMENTARY = {
    "sin": Problem(jnp.sin, mp.sin, 0.3),
    "cos at 0": Problem(jnp.cos, mp.cos, 0.0),
    "exp": Problem(jnp.exp, mp.exp, 0.3),
    "expm1": Problem(jnp.expm1, mp.expm1, 1e-3),
    "log": Problem(jnp.log, mp.log, 0.7),
    "log1p": Problem(jnp.log1p, mp.log1p, 1e-3),
    "sqrt": Problem(jnp.sqrt, mp.sqrt, 2.0),
    "cbrt": Problem(jnp.cbrt, mp.cbrt, 1.3),
    "tan": Problem(jnp.tan, mp.tan, 0.4),
    "atan": Problem(jnp.arctan, mp.atan, 0.4),
    "asin": Problem(jnp.arcsin, mp.asin, 0.3),
    "atan2 on an axis": Problem(lambda x: jnp.arctan2(1.0 + x, x), lambda x: mp.pi / 2 - mp.atan(x / (1 + x)), 0.0),
    "tanh": Problem(jnp.tanh, mp.tanh, 0.7),
    "logistic": Problem(jax.nn.sigmoid, lambda x: 1 / (1 + mp.exp(-x)), 0.4),
    "erf": Problem(lax.erf, mp.erf, 0.5),
    "erf_inv": Problem(lax.erf_inv, mp.erfinv, 0.3),
    "division": Problem(lambda x: (1 + x) / (2 + x * x), lambda x: (1 + x) / (2 + x * x), 0.3),
    "reciprocal power": Problem(lambda x: x**-3, lambda x: x**-3, 1.3),
    "integer power": Problem(lambda x: x**11, lambda x: x**11, -0.8),
    "x**x": Problem(lambda x: x**x, lambda x: x**x, 1.3),
    "constant to the x": Problem(lambda x: 3.0**x, lambda x: mp.mpf(3) ** x, 0.5),
    "the paper's S(x)": Problem(
        lambda x: -(x**2) + 5 * jnp.sin(x) ** 2, lambda x: -(x**2) + 5 * mp.sin(x) ** 2, 0.0, 10
    ),
}

TRAPS = {  # where a rule that looks right gives NaN or the wrong number
    "x**3.0 below 0": Problem(lambda x: x**3.0, lambda x: x**3, -1.2),
    "x**2.5": Problem(lambda x: x**2.5, lambda x: x ** mp.mpf(2.5), 1.3),
    "softplus at its tie": Problem(jax.nn.softplus, lambda x: mp.log1p(mp.exp(x)), 0.0),
    "softplus": Problem(jax.nn.softplus, lambda x: mp.log1p(mp.exp(x)), 1.5),
    "logaddexp at a tie": Problem(lambda x: jnp.logaddexp(x, 2 * x), lambda x: mp.log(mp.exp(x) + mp.exp(2 * x)), 0.0),
    "log_sigmoid": Problem(jax.nn.log_sigmoid, log_sigmoid, -2.0),
    "log_ndtr": Problem(special.log_ndtr, lambda x: mp.log(mp.ncdf(x)), -1.2),
    "xlogy": Problem(lambda x: special.xlogy(x, x), lambda x: x * mp.log(x), 0.6),
    "sinc at 0": Problem(jnp.sinc, lambda x: mp.sincpi(x), 0.0),
    "relu": Problem(jax.nn.relu, lambda x: x, 0.5),
    "softplus by hand at its kink": Problem(
        lambda x: jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x))), lambda x: mp.log1p(mp.exp(x)), 0.0
    ),
    "the same, clipped, of -x^2": Problem(
        lambda x: jnp.clip(-x * x, 0, 9) + jnp.log1p(jnp.exp(-jnp.abs(-x * x))),
        lambda x: mp.log1p(mp.exp(-x * x)),
        0.0,
    ),
    "min and max at a tie": Problem(lambda x: jnp.minimum(x, x**2) + jnp.maximum(x, x**2), lambda x: x + x**2, 0.0),
    "absolute value": Problem(lambda x: jnp.abs(x) ** 3, lambda x: -(x**3), -0.5),
}

SPECIAL_FUNCTIONS = {
    "lgamma": Problem(lax.lgamma, mp.loggamma, 2.5),
    "digamma": Problem(lax.digamma, mp.digamma, 1.5),
    "bessel_i0e": Problem(lax.bessel_i0e, lambda x: mp.besseli(0, x) * mp.exp(-x), 1.3, 4),
    "betainc in x": Problem(lambda x: special.betainc(2.0, 3.0, x), lambda x: mp.betainc(2, 3, 0, x, True), 0.4),
}

LINEAR_ALGEBRA = {
    "matmul": Problem(
        lambda x: (matrix_at(x) @ (matrix_at(0.0) * jnp.sin(x)))[0, 1],
        lambda x: mp.sin(x) * ((2 + x) + 3 * (1 + x / 2)),
        0.3,
    ),
    "cholesky": Problem(
        lambda x: jnp.linalg.cholesky(matrix_at(x))[1, 1],
        lambda x: mp.sqrt(determinant(x) / (2 + x)),
        0.3,
        4,
    ),
    "solve": Problem(
        lambda x: jnp.linalg.solve(matrix_at(x), jnp.ones(2))[0],
        lambda x: (3 - (1 + x / 2)) / determinant(x),
        0.3,
        5,
    ),
    "triangular systems": Problem(
        lambda x: (
            lax.linalg.triangular_solve(matrix_at(x), jnp.ones((2, 1)), left_side=True, lower=True, unit_diagonal=True)
            + lax.linalg.triangular_solve(matrix_at(x), jnp.ones((1, 2)), transpose_a=True).mT
        )[:, 0].sum(),
        lambda x: 1 - x / 2 + 1 / mp.mpf(3) + (1 - (1 + x / 2) / 3) / (2 + x),
        0.3,
    ),
    "slogdet": Problem(lambda x: jnp.linalg.slogdet(matrix_at(x))[1], lambda x: mp.log(determinant(x)), 0.3),
    "eigvalsh": Problem(
        lambda x: jnp.linalg.eigvalsh(matrix_at(x))[0],
        lambda x: ((5 + x) - mp.sqrt((5 + x) ** 2 - 4 * determinant(x))) / 2,
        0.3,
        4,
    ),
    "logsumexp": Problem(
        lambda x: special.logsumexp(jnp.arange(1.0, 4.0) * x),
        lambda x: mp.log(mp.exp(x) + mp.exp(2 * x) + mp.exp(3 * x)),
        0.5,
    ),
    "prod": Problem(
        lambda x: jnp.prod(jnp.arange(1.0, 4.0) * x + 1), lambda x: (x + 1) * (2 * x + 1) * (3 * x + 1), 0.5
    ),
    "cumsum and cumprod": Problem(
        lambda x: jnp.cumprod(jnp.cumsum(jnp.stack([x, x * x, x])))[2],
        lambda x: x * (x + x**2) * (2 * x + x**2),
        0.5,
    ),
    "indexing": Problem(
        lambda x: jnp.stack([x, jnp.exp(x), x**2])[jnp.array([2, 1])].sum(), lambda x: mp.exp(x) + x**2, 0.5
    ),
    "update in place": Problem(
        lambda x: jnp.zeros(3).at[1].set(jnp.sin(x)).at[1].add(x).sum(), lambda x: mp.sin(x) + x, 0.5
    ),
    "sort and max": Problem(
        lambda x: jnp.sort(jnp.stack([x, -x, x**2]))[1] + jnp.max(jnp.stack([x, 3 * x])),
        lambda x: x**2 + 3 * x,
        0.5,
    ),
}

DENSITIES = {
    "Normal": Problem(
        lambda x: dist.Normal(jnp.sin(1.7 * x), jnp.exp(x)).log_prob(0.4),
        lambda x: normal_log_density((mp.mpf(0.4) - mp.sin(mp.mpf(1.7) * x)) / mp.exp(x)) - x,
        0.2,
    ),
    "StudentT": Problem(
        lambda x: dist.StudentT(jnp.exp(x), 1.7 * x, 2.0).log_prob(0.4),
        lambda x: (
            mp.loggamma((mp.exp(x) + 1) / 2)
            - mp.loggamma(mp.exp(x) / 2)
            - mp.log(mp.exp(x) * mp.pi) / 2
            - mp.log(2)
            - (mp.exp(x) + 1) / 2 * mp.log1p(((mp.mpf(0.4) - mp.mpf(1.7) * x) / 2) ** 2 / mp.exp(x))
        ),
        0.8,
    ),
    "Cauchy": Problem(
        lambda x: dist.Cauchy(1.7 * x, 1.0).log_prob(0.4),
        lambda x: -mp.log(mp.pi) - mp.log1p((mp.mpf(0.4) - mp.mpf(1.7) * x) ** 2),
        0.2,
        10,
    ),
    "Gamma": Problem(
        lambda x: dist.Gamma(jnp.exp(x), 2 + x).log_prob(1.3),
        lambda x: (
            mp.exp(x) * mp.log(2 + x)
            + (mp.exp(x) - 1) * mp.log(mp.mpf(1.3))
            - (2 + x) * mp.mpf(1.3)
            - mp.loggamma(mp.exp(x))
        ),
        0.4,
    ),
    "Poisson": Problem(
        lambda x: dist.Poisson(jnp.exp(1.5 * x)).log_prob(3),
        lambda x: 3 * mp.mpf(1.5) * x - mp.exp(mp.mpf(1.5) * x) - mp.log(6),
        0.0,
    ),
    "Binomial by logits": Problem(
        lambda x: dist.Binomial(10, logits=1.5 * x).log_prob(3),
        lambda x: (
            log_binomial_coefficient(10, 3) + 3 * log_sigmoid(mp.mpf(1.5) * x) + 7 * log_sigmoid(-mp.mpf(1.5) * x)
        ),
        0.0,
    ),
    "Bernoulli": Problem(
        lambda x: dist.Bernoulli(logits=1.5 * x).log_prob(1), lambda x: log_sigmoid(mp.mpf(1.5) * x), 0.0
    ),
    "Binomial by probability": Problem(
        lambda x: dist.Binomial(10, probs=x).log_prob(3),
        lambda x: log_binomial_coefficient(10, 3) + 3 * mp.log(x) + 7 * mp.log1p(-x),
        0.3,
    ),
    "NegativeBinomial2": Problem(
        lambda x: dist.NegativeBinomial2(jnp.exp(x), 1 + x).log_prob(3),
        lambda x: (
            mp.loggamma(4 + x)
            - mp.loggamma(1 + x)
            - mp.log(6)
            + (1 + x) * mp.log((1 + x) / (1 + x + mp.exp(x)))
            + 3 * mp.log(mp.exp(x) / (1 + x + mp.exp(x)))
        ),
        0.5,
        6,
    ),
    "MultivariateNormal": Problem(
        lambda x: dist.MultivariateNormal(x * jnp.ones(2), matrix_at(x)).log_prob(jnp.zeros(2)),
        lambda x: (
            -mp.log(2 * mp.pi)
            - mp.log(determinant(x)) / 2
            - x * x * (3 + (2 + x) - 2 * (1 + x / 2)) / determinant(x) / 2
        ),
        0.3,
        4,
    ),
    "MultivariateNormal away from its mean": Problem(
        lambda x: dist.MultivariateNormal(x * jnp.ones(2), matrix_at(0.0) + x * jnp.eye(2)).log_prob(1.5 * jnp.ones(2)),
        lambda x: (
            -mp.log(2 * mp.pi)
            - mp.log(5 + 5 * x + x * x) / 2
            - (mp.mpf(1.5) - x) ** 2 * (3 + 2 * x) / (5 + 5 * x + x * x) / 2
        ),
        0.0,
        4,
    ),
    "MultivariateNormal with a constant covariance": Problem(
        lambda x: dist.MultivariateNormal(jnp.exp(x) * jnp.ones(2), matrix_at(0.0)).log_prob(jnp.zeros(2)),
        lambda x: -mp.log(2 * mp.pi) - mp.log(5) / 2 - mp.exp(2 * x) * 3 / 10,
        0.3,
    ),
}

CONTROL = {
    "cond taken": Problem(
        lambda x: lax.cond(x > 0, lambda z: jnp.exp(z) * z, lambda z: -z, x), lambda x: mp.exp(x) * x, 0.7
    ),
    "cond not taken": Problem(
        lambda x: lax.cond(x > 1, lambda z: jnp.exp(z) * z, lambda z: z * z, x), lambda x: x * x, 0.7
    ),
    "where with a guarded branch": Problem(
        lambda x: jnp.where(x > 0, jnp.log(jnp.where(x > 0, x, 1.0)), 0.0), mp.log, 0.7
    ),
    "jit, vmap, remat": Problem(
        lambda x: jax.checkpoint(jax.jit(lambda z: jax.vmap(lambda a: jax.nn.softplus(a * z))(jnp.arange(2.0)).sum()))(
            x
        ),
        lambda x: mp.log(2) + mp.log1p(mp.exp(x)),
        0.0,
    ),
    "a derivative inside": Problem(jax.grad(lambda x: jnp.sin(x * x)), lambda x: 2 * x * mp.cos(x * x), 0.7),
}

PROBLEMS = ELEMENTARY | TRAPS | SPECIAL_FUNCTIONS | LINEAR_ALGEBRA | DENSITIES | CONTROL


def coefficients_and_reference(problem: Problem, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    # not jitted: to dispatch a few hundred operations on scalars takes less time than to compile them all
    center = jnp.array([problem.center], dtype)
    basis = MonomialBasis(1, problem.degree)
    found = taylor_coefficients(lambda u: problem.function(u[0]), center, basis)
    assert found.dtype == dtype
    with mp.workdps(DIGITS):
        exact = mp.taylor(problem.reference, mp.mpf(float(center[0])), problem.degree)
    return np.asarray(found), np.array([float(c) for c in exact])


EVERY_TENTH = {"division", *list(PROBLEMS)[::10]}


@pytest.mark.parametrize(
    "name", [name if name in EVERY_TENTH else pytest.param(name, marks=pytest.mark.slow) for name in PROBLEMS]
)
def test_coefficients_agree_with_mpmath(name: str, float64: None):
    found, exact = coefficients_and_reference(PROBLEMS[name], jnp.float64)
    np.testing.assert_allclose(found, exact, rtol=RELATIVE, atol=ABSOLUTE * np.max(np.abs(exact)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *(
            "sin",
            "x**3.0 below 0",
            "softplus at its tie",
            "log_ndtr",
            "lgamma",
            "cholesky",
            "cond taken",
        ),
        *("StudentT", "Poisson", "Binomial by logits", "MultivariateNormal"),
    ],
)
def test_float32_gives_float32_accuracy(name: str):
    found, exact = coefficients_and_reference(PROBLEMS[name], jnp.float32)
    scale = np.max(np.abs(exact))
    np.testing.assert_allclose(found, exact, rtol=RELATIVE_FLOAT32, atol=RELATIVE_FLOAT32 * scale)
