"""Polynomials in several variables: the four operations agree with each other, and with plain arithmetic."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paramfilter.polynomials import MonomialBasis, multiply

MAX_DEGREE = 3
LONGEST = MonomialBasis(2, 3).size * 5  # the most numbers any test asks for

# a basis is a value, so that one compiled function serves all examples with the same basis
evaluate = jax.jit(MonomialBasis.evaluate, static_argnums=0)
features = jax.jit(MonomialBasis.features, static_argnums=0)
homogeneous_parts = jax.jit(MonomialBasis.homogeneous_parts, static_argnums=0)
product_of = jax.jit(multiply, static_argnums=(0, 2))

bases = st.builds(MonomialBasis, dimension=st.integers(1, 3), degree=st.integers(0, MAX_DEGREE))
pairs_of_bases = st.integers(1, 3).flatmap(
    lambda dimension: st.tuples(*[st.builds(MonomialBasis, dimension=st.just(dimension), degree=st.integers(0, 2))] * 2)
)
seeds = st.integers(0, 2**31 - 1)


def small_integers(seed: int, count: int) -> np.ndarray:
    """Return whole numbers from -2 to 2: every result below is under 2^24, so float32 must be exact."""
    draws = jax.random.randint(jax.random.key(seed), (LONGEST,), -2, 3)
    return np.asarray(draws, np.float32)[:count]


def value_by_definition(basis: MonomialBasis, coefficients, u) -> float:
    point = u.tolist()
    terms = zip(coefficients.tolist(), basis.exponents.tolist(), strict=True)
    return sum(c * math.prod(x**n for x, n in zip(point, alpha, strict=True)) for c, alpha in terms)


@given(basis=bases)
def test_every_monomial_up_to_the_degree_is_there_once_and_lower_degrees_come_first(basis: MonomialBasis):
    exponents = [tuple(alpha) for alpha in basis.exponents.tolist()]
    cube = itertools.product(range(basis.degree + 1), repeat=basis.dimension)
    assert set(exponents) == {alpha for alpha in cube if sum(alpha) <= basis.degree}
    assert len(exponents) == basis.size
    degrees = [sum(alpha) for alpha in exponents]
    assert degrees == sorted(degrees)
    for degree in range(basis.degree + 1):
        stands = range(basis.size)[basis.degree_slice(degree)]
        assert [i for i, d in enumerate(degrees) if d == degree] == list(stands)


def test_in_one_dimension_the_monomials_are_the_powers():
    basis = MonomialBasis(1, 5)
    assert basis.exponents[:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert basis.features(jnp.array([2.0])).tolist() == [1, 2, 4, 8, 16, 32]


@given(basis=bases, seed=seeds)
def test_evaluate_is_the_sum_of_coefficient_times_monomial(basis: MonomialBasis, seed: int):
    coefficients, u = small_integers(seed, basis.size), small_integers(seed + 1, basis.dimension)
    expected = value_by_definition(basis, coefficients, u)
    assert evaluate(basis, coefficients, u).item() == expected
    assert np.sum(coefficients * features(basis, u)) == expected


@given(bases=pairs_of_bases, seed=seeds)
def test_the_value_of_a_product_is_the_product_of_the_values(bases, seed: int):
    left_basis, right_basis = bases
    left, right = small_integers(seed, left_basis.size), small_integers(seed + 1, right_basis.size)
    u = small_integers(seed + 2, left_basis.dimension)
    product_basis = MonomialBasis(left_basis.dimension, left_basis.degree + right_basis.degree)
    product = product_of(left_basis, left, right_basis, right)
    assert product.shape == (product_basis.size,)
    expected = value_by_definition(left_basis, left, u) * value_by_definition(right_basis, right, u)
    assert value_by_definition(product_basis, product, u) == expected


@given(basis=bases, seed=seeds, radius=st.sampled_from([-2.0, 0.0, 0.5, 3.0]))
def test_homogeneous_parts_are_the_polynomial_along_a_ray(basis: MonomialBasis, seed: int, radius: float):
    coefficients, v = small_integers(seed, basis.size), small_integers(seed + 1, basis.dimension)
    parts = homogeneous_parts(basis, coefficients, v)
    assert parts.shape == (basis.degree + 1,)
    along_the_ray = sum(part * radius**k for k, part in enumerate(parts.tolist()))
    assert along_the_ray == value_by_definition(basis, coefficients, radius * v)


def test_one_dimensional_product_is_numpys_convolution():
    left, right = jnp.arange(1.0, 5.0), jnp.array([2.0, -1.0, 3.0])
    product = multiply(MonomialBasis(1, 3), left, MonomialBasis(1, 2), right)
    assert product.tolist() == np.convolve(left, right).tolist()


def test_a_population_of_polynomials_goes_through_vmap_and_jit():
    basis, num_particles = MonomialBasis(2, 3), 5
    coefficients = small_integers(0, num_particles * basis.size).reshape(num_particles, basis.size)
    points = small_integers(1, num_particles * 2).reshape(num_particles, 2)

    @jax.jit
    @jax.vmap
    def square_at(c, u):
        return MonomialBasis(2, 6).evaluate(multiply(basis, c, basis, c), u)

    expected = [value_by_definition(basis, c, u) ** 2 for c, u in zip(coefficients, points, strict=True)]
    assert square_at(coefficients, points).tolist() == expected


@pytest.mark.parametrize("dimension", [1, 2])
def test_precision_and_strong_types_follow_the_input(dimension: int, float64: None):
    basis = MonomialBasis(dimension, 2)
    for dtype in (jnp.float32, jnp.float64):
        c, u = jnp.ones(basis.size, dtype), jnp.ones(dimension, dtype)
        results = basis.features(u), basis.evaluate(c, u), basis.homogeneous_parts(c, u)
        for result in (*results, multiply(basis, c, basis, c)):
            assert result.dtype == dtype
            assert not result.weak_type


def test_exponents_cannot_be_overwritten():
    with pytest.raises(ValueError, match="read-only"):
        MonomialBasis(2, 2).exponents[0, 0] = 1


def test_impossible_bases_are_refused_in_words():
    with pytest.raises(ValueError, match="a variable or more"):
        MonomialBasis(0, 2)
    with pytest.raises(ValueError, match="degree of 0 or more"):
        MonomialBasis(1, -1)
    with pytest.raises(ValueError, match="in 1 and 2 variables"):
        multiply(MonomialBasis(1, 1), jnp.ones(2), MonomialBasis(2, 1), jnp.ones(3))
