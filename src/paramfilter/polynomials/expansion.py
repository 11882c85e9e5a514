"""Expand any JAX function in a Taylor series along a line, by reading its jaxpr.

Given f and the line t -> center + t v, `directional_taylor` returns c_0, ..., c_M with

    f(center + t v) = c_0 + c_1 t + ... + c_M t^M + O(t^(M+1)).

Products, quotients, triangular systems, abs and max have a recurrence written by hand (in `series`). Every
other rule comes from the first derivative, which JAX knows already: if y(t) = g(x(t)) then y' = dg(x) x', so
y is the integral of a series that is needed to one order less.

1. The tangent dg(x) x' is traced with `jax.jvp`, and its jaxpr is read in turn with series for x and x'.
2. Where the tangent mentions y itself (exp, sqrt, softplus, cholesky) it is handed y, so that the cost is
   that of the classical recurrences, O(M^2) products. Where it leads to a new function each time (lgamma,
   digamma, polygamma, ...) there are M of them, each one order shorter than the one before.
3. Where the tangent does not depend on x, g is linear (reshape, sum, gather, a product with a constant) and
   y_k = dg x_k at once.
4. A function with its own derivative (`jax.custom_jvp`) is expanded by *that* derivative. It was given one
   because its body is no good for derivatives somewhere.

Equations that no series reaches are evaluated as they stand, and so is all control: a comparison, an index or
a branch follows the value at t = 0. Only abs, max and min look to the side t > 0 at a kink (see `series`).

`jax.experimental.jet` has the same aim, with a rule by hand for each primitive. It has none for lgamma,
cholesky, scan, cond and others, fails on every custom_jvp function, and gives NaN for x**3.0 at 0. Measured
on sin(theta x), M = 7 / 14: 43 / 78 equations here, 265 / 916 there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from paramfilter.polynomials.control_flow import (
    Value,
    coefficient_of,
    coefficients_of,
    cond_series,
    scan_series,
)
from paramfilter.polynomials.equations import CURE, Step, Tangent, is_variable, live_equations, open_jaxpr
from paramfilter.polynomials.series import (
    BlockSeries,
    Coefficient,
    Series,
    absolute,
    integral,
    larger,
    polynomial,
    product,
    quotient,
    smaller,
    square,
    written_out,
)

CALLS = {
    *("jit", "pjit", "closed_call", "core_call", "remat", "remat2", "checkpoint"),
    *("custom_vjp_call", "custom_vmap_call"),
}
"""Primitives that only wrap a jaxpr: it is read as if it stood in the place of the call."""

BILINEAR = {"mul", "dot_general", "conv_general_dilated"}

BLOCKS = {"scan": scan_series, "cond": cond_series}


def directional_taylor(
    function: Callable[[Float[Array, " param"]], Array],
    center: Float[Array, " param"],
    direction: Float[Array, " param"],
    order: int,
) -> Array:
    """Return the Taylor coefficients of t -> function(center + t direction), on a new leading axis.

    >>> c = directional_taylor(lambda u: jnp.exp(u[0]), jnp.zeros(1), jnp.ones(1), order=3)
    >>> [round(float(v), 4) for v in c]
    [1.0, 1.0, 0.5, 0.1667]
    """
    program = jax.make_jaxpr(function)(center)
    if len(program.out_avals) != 1:
        raise TypeError(f"the function must return one array, got {len(program.out_avals)}: stack them")
    (value,) = run_to(order, program, [polynomial(center, direction)])
    stacked = jnp.stack(coefficients_of(value, order))
    return lax.convert_element_type(stacked, stacked.dtype)  # drops the weak type that `lambda u: 1.0` has


def run_to(order: int, program: Any, inputs: Sequence[Value]) -> list[Value]:
    """Return the outputs of a jaxpr, with all series known to this order."""
    reader = Reader()
    outputs = reader.run(program, inputs)
    reader.advance(order)
    return outputs


class Reader:
    """Read a jaxpr with series in the place of some of its inputs.

    `made` lists the series in the order they were made: `advance` asks each for its coefficients after those
    it is made from, so that the depth of Python's stack is that of nested derivatives and not the length of
    the program. `memo` remembers what was made from what: sin asks for cos, which asks for the same sin.
    """

    def __init__(self, memo: dict[Any, Any] | None = None):
        self.made: list[Series] = []
        self.memo: dict[Any, Any] = {} if memo is None else memo

    def advance(self, order: int) -> None:
        """Compute all series made here to this order."""
        for series in self.made:
            series[order]

    def run(
        self,
        program: Any,
        inputs: Sequence[Value],
        wanted: Sequence[Any] | None = None,
        given: Mapping[Any, Value] | None = None,
    ) -> list[Value]:
        """Return the outputs of a jaxpr, or the wanted variables; those `given` are not computed."""
        jaxpr = open_jaxpr(program)
        targets = jaxpr.outvars if wanted is None else wanted
        inputs = [*getattr(program, "consts", ()), *inputs]
        known = {} if given is None else dict(given)
        values = dict(zip([*jaxpr.constvars, *jaxpr.invars], inputs, strict=True)) | known

        def read(atom: Any) -> Value:
            return values[atom] if is_variable(atom) else atom.val

        for equation in live_equations(jaxpr, targets, known):
            outputs = self._outputs(equation, [read(atom) for atom in equation.invars], known)
            values |= {var: x for var, x in zip(equation.outvars, outputs, strict=True) if var not in known}
        return [read(atom) for atom in targets]

    def _outputs(self, equation: Any, inputs: list[Value], given: dict[Any, Value]) -> list[Value]:
        step = Step(equation, tuple(isinstance(value, Series) for value in inputs))
        if not any(step.moving):
            return step.evaluate(inputs)
        if step.name in CALLS:
            inner = next(step.params[key] for key in ("jaxpr", "call_jaxpr", "call") if key in step.params)
            pairs = zip(open_jaxpr(inner).outvars, equation.outvars, strict=True)
            given_inside = {var: given[out] for var, out in pairs if out in given and is_variable(var)}
            return self.run(inner, inputs, given=given_inside)
        key = step.operation, tuple(id(value) for value in inputs)
        if key not in self.memo:
            outputs = self._expanded(step, inputs)
            self.made += [value for value in outputs if isinstance(value, Series)]
            self.memo[key] = outputs, inputs, equation  # the last two are kept: the key holds their ids
        return self.memo[key][0]

    def _expanded(self, step: Step, inputs: list[Value]) -> list[Value]:
        """Return the outputs of a primitive as series, by the first rule that fits."""
        if step.name == "while":
            raise NotImplementedError(
                "no Taylor series passes through `while`: values decide when it ends, and they settle before "
                "their derivatives do. Write the loop with a fixed length (lax.scan, or lax.fori_loop with "
                f"constant bounds), or {CURE}."
            )
        rewritten = step.rewritten()
        if rewritten is not None:
            return self.run(jax.make_jaxpr(rewritten)(*step.in_shapes), inputs)
        firsts = step.evaluate([coefficient_of(value, 0) for value in inputs])
        if step.name in BLOCKS:
            moves, solve = BLOCKS[step.name](step, inputs, run_to)
            series = [BlockSeries(first, lambda k, i=i: solve(k)[i]) for i, first in enumerate(firsts)]
            return [s if m else first for s, first, m in zip(series, firsts, moves, strict=True)]
        if step.name == "square" or (step.name == "mul" and inputs[0] is inputs[1]):
            return [square(firsts[0], inputs[0])]
        if step.name in BILINEAR and all(step.moving):
            return [product(firsts[0], lambda a, b: step.evaluate([a, b])[0], *inputs)]
        if step.name == "abs" and jnp.isrealobj(inputs[0][0]):
            return [absolute(firsts[0], inputs[0])]
        if step.name in ("max", "min"):
            choose = larger if step.name == "max" else smaller
            return [choose(firsts[0], _as_series(inputs[0]), _as_series(inputs[1]))]
        if step.name == "div" and step.moving[1]:
            return [quotient(firsts[0], _as_series(inputs[0]), inputs[1])]
        if step.name == "triangular_solve" and step.moving[0]:
            multiply = functools.partial(_triangular_product, **step.params)
            solve_at_zero = lambda b, a: step.evaluate([a, b])[0]
            return [quotient(firsts[0], _as_series(inputs[1]), inputs[0], multiply, solve_at_zero)]
        return self._integrated(step, inputs, firsts)

    def _integrated(self, step: Step, inputs: list[Value], firsts: list[Array]) -> list[Value]:
        """Return the outputs of a primitive that is known through its first derivative alone."""
        if step.operation not in self.memo:
            self.memo[step.operation] = Tangent.of(step)
        tangent = self.memo[step.operation]
        curves = step.only_moving(inputs)
        outputs: list[Value] = list(firsts)

        def linear(output: int, k: int) -> Coefficient:
            if all(curve[k] is None for curve in curves):
                return None
            values = [coefficient_of(value, 0) for value in inputs]
            moved = [written_out(curve[k], like=curve[0]) for curve in curves]
            wanted = [tangent.directions[output]]
            return Reader().run(tangent.program, [*values, *moved], wanted, tangent.given(firsts))[0]

        @functools.cache  # and not before it is asked for: the tangent of lgamma leads to ever new functions
        def directions() -> tuple[Reader, list[Value]]:
            reader = Reader(self.memo)
            moved = [curve.derivative() for curve in curves]
            wanted = tangent.directions
            return reader, reader.run(tangent.program, [*inputs, *moved], wanted, tangent.given(outputs))

        def general(output: int, k: int) -> Coefficient:
            reader, series = directions()
            reader.advance(k)
            return coefficient_of(series[output], k)

        for i, first in enumerate(firsts):
            if tangent.moves[i] and tangent.is_linear:
                outputs[i] = Series(first, functools.partial(linear, i))
            elif tangent.moves[i]:
                outputs[i] = integral(first, functools.partial(general, i))
        return outputs


def _as_series(value: Value) -> Series:
    return value if isinstance(value, Series) else polynomial(jnp.asarray(value))


def _triangular_product(
    a: Array,
    x: Array,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> Array:
    """Return what triangular_solve undoes, for a coefficient beyond the first: a unit diagonal is 0 there."""
    a = jnp.tril(a, -1 if unit_diagonal else 0) if lower else jnp.triu(a, 1 if unit_diagonal else 0)
    a = a.mT if transpose_a else a
    a = a.conj() if conjugate_a else a
    left, right = (a, x) if left_side else (x, a)
    return jnp.matmul(left, right, precision=lax.Precision.HIGHEST)
