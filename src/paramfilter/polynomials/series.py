"""Truncated power series whose coefficients are computed when they are first asked for.

A `Series` stands for a smooth curve t -> x(t) through its Taylor coefficients,

    x(t) = x_0 + x_1 t + x_2 t^2 + ...,

each an array of the shape of x. Three recurrences make new series from old ones:

    product     y = a b      y_k = sum_j a_j b_{k-j}
    quotient    y = a / b    y_k = (a_k - sum_{j<k} b_{k-j} y_j) / b_0
    integral    y' = z       y_k = z_{k-1} / k

The last is what makes laziness worth having: z may itself be made from y, as in y' = y x' for y = exp(x),
because coefficient k of y asks for coefficient k-1 of z, and that one for nothing of y beyond k-1.

A coefficient that is exactly zero is `None` and costs nothing: sin(theta x) as a series in theta then needs
M products and not M^2.

At a kink (abs at 0, max at a tie) the curve is followed to the side t > 0: the first coefficient that is not
zero says which branch that is. A smooth function put together from such pieces, like numpyro's log-density of
a Bernoulli variable, max(x, 0) - x y + log(1 + exp(-|x|)), is then expanded rightly at x = 0 too, where its
gradient by JAX is wrong. (What is not smooth gets its expansion on that side.)

Reference: Griewank and Walther, *Evaluating Derivatives* (2008), chapter 13.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

Coefficient = Any
"""An array, or None for an exact zero."""


class Series:
    """The Taylor coefficients of one curve t -> x(t).

    >>> exponential = Series(jnp.array(1.0), lambda k: exponential[k - 1] / k)  # y' = y, y(0) = 1
    >>> [round(float(exponential[k]), 4) for k in range(4)]
    [1.0, 1.0, 0.5, 0.1667]
    """

    def __init__(self, first: Array, next_coefficient: Callable[[int], Coefficient]):
        self.known: list[Coefficient] = [first]
        self._next_coefficient = next_coefficient
        self._derivative: Series | None = None

    def __getitem__(self, k: int) -> Coefficient:
        while len(self.known) <= k:
            self.known.append(self._next_coefficient(len(self.known)))
        return self.known[k]

    def derivative(self) -> Series:
        """Return the series of x'(t), the same object every time: what is made from it is made once."""

        def coefficient(k: int) -> Coefficient:
            return None if self[k + 1] is None else (k + 1) * self[k + 1]

        if self._derivative is None:
            self._derivative = Series(written_out(self[1], like=self[0]), coefficient)
        return self._derivative


class BlockSeries(Series):
    """A series whose coefficients come all at once: `solve(k)` returns coefficients 0 to k."""

    def __init__(self, first: Array, solve: Callable[[int], Sequence[Coefficient]]):
        super().__init__(first, lambda k: solve(k)[k])
        self._solve = solve

    def __getitem__(self, k: int) -> Coefficient:
        if len(self.known) <= k:
            self.known = list(self._solve(k))
        return self.known[k]


def polynomial(*known: Array) -> Series:
    """Return the series that ends with these coefficients."""
    series = Series(known[0], lambda k: None)
    series.known = list(known)
    return series


def truncated(known: Sequence[Array]) -> Series:
    """Return a series of which no more than these coefficients are known."""

    def unknown(k: int) -> Coefficient:
        raise IndexError(f"coefficient {k} of a series known to order {len(known) - 1}")

    series = Series(known[0], unknown)
    series.known = list(known)
    return series


def product(first: Array, multiply: Callable[[Array, Array], Array], left: Series, right: Series) -> Series:
    """Return the series of a bilinear `multiply(left, right)` whose value at t = 0 is `first`."""

    def coefficient(k: int) -> Coefficient:
        return _total(_product(multiply, left[j], right[k - j]) for j in range(k + 1))

    return Series(first, coefficient)


def square(first: Array, root: Series) -> Series:
    """Return the series of root * root, with half the products."""

    def coefficient(k: int) -> Coefficient:
        pairs = _total(_product(jnp.multiply, root[j], root[k - j]) for j in range((k + 1) // 2))
        middle = _product(jnp.multiply, root[k // 2], root[k // 2]) if k % 2 == 0 else None
        return _total([None if pairs is None else 2 * pairs, middle])

    return Series(first, coefficient)


def quotient(
    first: Array,
    numerator: Series,
    denominator: Series,
    multiply: Callable[[Array, Array], Array] = jnp.multiply,
    divide: Callable[[Array, Array], Array] = jnp.divide,
) -> Series:
    """Return the series of `divide(numerator, denominator)`, which undoes `multiply(denominator, result)`.

    The denominator may be a matrix: then `multiply` is its product with the result, and `divide` the solution
    of a linear system.
    """

    def coefficient(k: int) -> Coefficient:
        carried = _total(_product(multiply, denominator[k - j], result[j]) for j in range(k))
        residual = _total([numerator[k], None if carried is None else -carried])
        return None if residual is None else divide(residual, denominator[0])

    result = Series(first, coefficient)
    return result


def absolute(first: Array, x: Series) -> Series:
    """Return the series of |x| for small t > 0."""
    sign = _sign_after_zero(x)
    return Series(first, lambda k: None if x[k] is None else sign[k] * x[k])


def larger(first: Array, x: Series, y: Series) -> Series:
    """Return the series of max(x, y) for small t > 0."""
    return _chosen(first, x, y, _sign_after_zero(_difference(x, y)))


def smaller(first: Array, x: Series, y: Series) -> Series:
    """Return the series of min(x, y) for small t > 0."""
    return _chosen(first, x, y, _sign_after_zero(_difference(y, x)))


def integral(first: Array, coefficient_of_derivative: Callable[[int], Coefficient]) -> Series:
    """Return the series which starts at `first` and has the derivative with these coefficients."""

    def coefficient(k: int) -> Coefficient:
        slope = coefficient_of_derivative(k - 1)
        return None if slope is None else slope / k

    return Series(first, coefficient)


def written_out(coefficient: Coefficient, like: Array) -> Array:
    """Return the coefficient as an array, also when it is an exact zero."""
    return jnp.zeros_like(like) if coefficient is None else coefficient


def _sign_after_zero(x: Series) -> Series:
    """Return for each k, in the place of a coefficient, the sign of x_0 + ... + x_k t^k for small t > 0."""

    def sign_to_order(k: int) -> Array:
        before = signs[k - 1]
        return before if x[k] is None else jnp.where(before == 0, jnp.sign(x[k]), before)

    signs = Series(jnp.sign(x[0]), sign_to_order)
    return signs


def _difference(x: Series, y: Series) -> Series:
    return Series(x[0] - y[0], lambda k: _total([x[k], None if y[k] is None else -y[k]]))


def _chosen(first: Array, x: Series, y: Series, sign: Series) -> Series:
    def coefficient(k: int) -> Coefficient:
        if x[k] is None and y[k] is None:
            return None
        return jnp.where(sign[k] > 0, written_out(x[k], like=x[0]), written_out(y[k], like=y[0]))

    return Series(first, coefficient)


def _product(multiply: Callable[[Array, Array], Array], left: Coefficient, right: Coefficient) -> Coefficient:
    return None if left is None or right is None else multiply(left, right)


def _total(terms: Iterable[Coefficient]) -> Coefficient:
    present = [term for term in terms if term is not None]
    return sum(present[1:], start=present[0]) if present else None
