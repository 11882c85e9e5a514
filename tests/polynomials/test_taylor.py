"""Taylor coefficients in several variables, under jit and vmap, and what they cost."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from paramfilter.polynomials import MonomialBasis, multiply, taylor_coefficients
from paramfilter.polynomials.taylor import _directions_and_inverses

RELATIVE, ABSOLUTE = 1e-10, 1e-12  # of the coefficient, and of the largest one of the same degree
NUM_POINTS, ORDER = 1000, 7


def of_two(u):
    return jnp.sin(u[0] * u[1] + 0.3) * jnp.exp(u[0]) / (2 + u[1])


def of_three(u):
    return jax.nn.softplus(u[0] * u[2]) + lax.lgamma(2 + u[1]) * u[0] - jnp.log(2 + u[0] * u[1] + u[2])


def by_nested_derivatives(function, center, basis: MonomialBasis) -> np.ndarray:
    """Return d^alpha f / alpha! from the full tensors of derivatives."""
    derivatives = [function]
    for _ in range(basis.degree):
        derivatives.append(jax.jacfwd(derivatives[-1]))
    tensors = [np.asarray(tensor) for tensor in jax.jit(lambda u: [d(u) for d in derivatives])(center)]
    coefficients = []
    for alpha in basis.exponents.tolist():
        place = tuple(variable for variable, count in enumerate(alpha) for _ in range(count))
        coefficients.append(tensors[sum(alpha)][place] / math.prod(map(math.factorial, alpha)))
    return np.array(coefficients)


def assert_close_by_degree(basis: MonomialBasis, found, expected, relative=RELATIVE, absolute=ABSOLUTE):
    for degree in range(basis.degree + 1):
        part = basis.degree_slice(degree)
        scale = np.max(np.abs(expected[part]))
        np.testing.assert_allclose(found[part], expected[part], rtol=relative, atol=absolute * scale)


@pytest.mark.parametrize(("function", "center", "degree"), [(of_two, [0.4, -0.3], 5), (of_three, [0.4, 0.1, -0.2], 4)])
def test_mixed_derivatives_agree_with_nested_jacfwd(function, center, degree: int, float64: None):
    center, basis = jnp.array(center), MonomialBasis(len(center), degree)
    found = jax.jit(lambda c: taylor_coefficients(function, c, basis))(center)
    assert_close_by_degree(basis, found, by_nested_derivatives(function, center, basis))


@pytest.mark.parametrize("dimension", [2, 3])
def test_the_expansion_of_a_product_is_the_product_of_the_expansions(dimension: int, float64: None):
    def left(u):
        return jnp.exp(u @ jnp.arange(1.0, dimension + 1))

    def right(u):
        return jnp.cos(u[0] - u[1]) / (3 + u[-1])

    basis, center = MonomialBasis(dimension, 4), jnp.linspace(-0.2, 0.3, dimension)
    expand = jax.jit(lambda c: [taylor_coefficients(f, c, basis) for f in (left, right)])
    expand_product = jax.jit(lambda c: taylor_coefficients(lambda u: left(u) * right(u), c, basis))
    product = multiply(basis, expand(center)[0], basis, expand(center)[1])[: basis.size]
    assert_close_by_degree(basis, np.asarray(expand_product(center)), np.asarray(product))


@pytest.mark.parametrize(("dimension", "degree"), [(2, 4), (4, 2)])
def test_a_polynomial_is_its_own_expansion_also_in_float32(dimension: int, degree: int):
    basis = MonomialBasis(dimension, degree)
    coefficients = jax.random.normal(jax.random.key(dimension), (basis.size,))
    expand = jax.jit(lambda u, c: taylor_coefficients(lambda v: basis.evaluate(c, v), u, basis))
    found = expand(jnp.zeros(dimension), coefficients)
    np.testing.assert_allclose(found, coefficients, atol=2e-5)  # 40 x the float32 rounding, for values of order 5


@pytest.mark.parametrize(("dimension", "degree"), [(2, 9), (3, 10), (4, 5), (5, 4)])
def test_directions_are_well_conditioned(dimension: int, degree: int):
    directions, inverses = _directions_and_inverses(MonomialBasis(dimension, degree))
    assert len(directions) == math.comb(dimension - 1 + degree, degree)
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1.0)
    for degree_k, inverse in enumerate(inverses, start=1):
        exponents = MonomialBasis(dimension, degree_k).exponents[-len(inverse) :].tolist()
        multiplicity = [math.factorial(degree_k) / math.prod(map(math.factorial, alpha)) for alpha in exponents]
        assert np.max(np.sum(np.abs(inverse), axis=1) / multiplicity) < 25


def test_one_basis_serves_both_precisions_in_any_order():
    basis = MonomialBasis(3, 2)
    expected = np.array([1, 1, 1, 1, 0.5, 1, 1, 0.5, 1, 0.5])
    for wide in (False, True, False):
        with jax.enable_x64(wide):
            found = taylor_coefficients(lambda u: jnp.exp(jnp.sum(u)), jnp.zeros(3), basis)
            squared = multiply(basis, found, basis, found)
            assert found.dtype == squared.dtype == (jnp.float64 if wide else jnp.float32)
            np.testing.assert_allclose(found, expected, atol=1e-14 if wide else 1e-5)


@pytest.fixture(scope="module")
def expand_sine():
    """The transition mean of the paper's SIN model, sin(theta x), as a series in theta for each state x."""
    basis = MonomialBasis(1, ORDER)

    def one(center, x):
        return taylor_coefficients(lambda theta: jnp.sin(theta[0] * x), center, basis)

    return jax.jit(jax.vmap(one, in_axes=(None, 0)))


@pytest.mark.parametrize("center", [0.0, 0.7])
def test_a_thousand_states_are_expanded_in_one_call(expand_sine, center: float):
    x = 2 * jax.random.normal(jax.random.key(0), (NUM_POINTS,))
    found = expand_sine(jnp.array([center]), x)
    state = np.asarray(x, np.float64)[:, None]
    k = np.arange(ORDER + 1)
    factorials = np.array([math.factorial(i) for i in k])
    exact = np.sin(center * state + k * np.pi / 2) * state**k / factorials
    assert found.shape == (NUM_POINTS, ORDER + 1)
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5)


def test_a_coefficient_can_itself_be_differentiated(float64: None):
    def third_coefficient(x):
        basis = MonomialBasis(1, 3)
        return taylor_coefficients(lambda theta: jnp.sin(theta[0] * x), jnp.zeros(1), basis)[3]

    assert jax.grad(third_coefficient)(2.0) == pytest.approx(-(2.0**2) / 2, rel=1e-14)


def test_an_output_of_any_shape_keeps_its_axes_after_the_coefficients(float64: None):
    def outer(u):
        return jnp.outer(jnp.exp(u[0] * jnp.arange(3.0)), jnp.array([1.0, u[1]]))

    basis = MonomialBasis(2, 3)
    found = jax.jit(lambda c: taylor_coefficients(outer, c, basis))(jnp.zeros(2))
    assert found.shape == (basis.size, 3, 2)
    exponents = basis.exponents.tolist()
    np.testing.assert_allclose(found[exponents.index([2, 0]), :, 0], [0.0, 0.5, 2.0], atol=1e-12)
    np.testing.assert_allclose(found[exponents.index([2, 1]), :, 1], [0.0, 0.5, 2.0], atol=1e-12)


@pytest.mark.parametrize("dimension", [1, 2])
def test_a_constant_function_has_one_coefficient_and_no_weak_type(dimension: int):
    basis = MonomialBasis(dimension, 2)
    found = taylor_coefficients(lambda u: 3.0, jnp.zeros(dimension), basis)
    assert found.tolist() == [3.0] + [0.0] * (basis.size - 1)
    assert not found.weak_type


def test_order_zero_is_the_value():
    assert taylor_coefficients(lambda u: jnp.exp(u[0]), jnp.zeros(1), MonomialBasis(1, 0)).tolist() == [1.0]
    assert taylor_coefficients(lambda u: u[0] + u[1], jnp.ones(2), MonomialBasis(2, 0)).tolist() == [2.0]


def covariance_factor(x):
    return jnp.linalg.cholesky(jnp.array([[2.0, 1.0], [1.0, 3.0]]) + x * jnp.eye(2))[1, 1]


@pytest.mark.parametrize("function", [jnp.sin, jax.nn.softplus, lax.lgamma, covariance_factor])
def test_cost_grows_like_a_power_of_the_order_and_not_like_a_tower_of_derivatives(function):
    def num_equations(order: int) -> int:
        expand = lambda center: taylor_coefficients(lambda u: function(u[0]), center, MonomialBasis(1, order))
        return len(jax.make_jaxpr(expand)(jnp.ones(1)).eqns)

    assert num_equations(8) <= 2**4 * num_equations(4)


def test_a_derivative_written_by_the_user_is_the_one_that_is_expanded():
    @jax.custom_jvp
    def cube(x):
        return lax.stop_gradient(x) ** 3

    @cube.defjvp
    def cube_jvp(primals, tangents):
        (x,), (dx,) = primals, tangents
        return cube(x), 3 * x * x * dx

    found = taylor_coefficients(lambda u: cube(u[0]), jnp.array([2.0]), MonomialBasis(1, 4))
    assert found.tolist() == [8.0, 12.0, 6.0, 1.0, 0.0]


def test_a_function_with_a_reverse_rule_is_read_through_its_body():
    @jax.custom_vjp
    def square(x):
        return x * x

    square.defvjp(lambda x: (square(x), x), lambda x, g: (2 * x * g,))
    found = taylor_coefficients(lambda u: square(u[0]), jnp.array([2.0]), MonomialBasis(1, 3))
    assert found.tolist() == [4.0, 4.0, 1.0, 0.0]


def test_loops_on_the_parameters_are_refused_with_the_cure():
    def newton(u):
        return lax.while_loop(lambda x: jnp.abs(x * x - u[0]) > 1e-6, lambda x: (x + u[0] / x) / 2, u[0])

    def repeated(u):
        return lax.scan(lambda x, _: (jnp.sin(u[0] * x), None), 1.0, None, length=3)[0]

    with pytest.raises(NotImplementedError, match=r"`scan`.*Python loop"):
        taylor_coefficients(repeated, jnp.array([2.0]), MonomialBasis(1, 2))
    with pytest.raises(NotImplementedError, match=r"`while`.*Python loop.*needs only values"):
        taylor_coefficients(newton, jnp.array([2.0]), MonomialBasis(1, 2))


def test_a_while_loop_on_other_values_is_simply_run():
    def scaled(u):
        return u[0] ** 2 * lax.while_loop(lambda n: n < 10, lambda n: 2 * n, 1)

    assert taylor_coefficients(scaled, jnp.array([1.0]), MonomialBasis(1, 2)).tolist() == [16.0, 32.0, 16.0]


def test_a_primitive_without_derivative_is_named_with_the_cure():
    def shape_of_gamma(u):  # JAX differentiates it once, and that derivative no further
        return lax.igamma(u[0], jnp.ones(()))

    with pytest.raises(NotImplementedError, match=r"no derivative of `igamma_grad_a`.*needs only values"):
        taylor_coefficients(shape_of_gamma, jnp.array([2.0]), MonomialBasis(1, 2))


def test_wrong_centers_and_outputs_are_refused_in_words():
    with pytest.raises(ValueError, match=r"2 floating-point numbers, got float32 of shape \(1,\)"):
        taylor_coefficients(jnp.sum, jnp.zeros(1), MonomialBasis(2, 2))
    with pytest.raises(TypeError, match="must return one array, got 2"):
        taylor_coefficients(lambda u: (u[0], u[0]), jnp.zeros(1), MonomialBasis(1, 2))
