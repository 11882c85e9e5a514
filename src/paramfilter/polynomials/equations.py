"""What can be known about one equation of a jaxpr: its value, its tangent, and what depends on what.

A jaxpr is a list of equations `outputs = primitive[params] inputs`. `Step` is one of them, together with the
inputs that move (carry a Taylor series). `Tangent` is its first derivative, again as a jaxpr, with two facts
found by following the variables through it: which outputs move at all, and whether the tangent is the same
all along the curve, so that the primitive is linear.

A dependence passes only through floating-point numbers. A comparison or an index is locally constant, and so
is all that is made from it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core
from jaxtyping import Array

CURE = "use a belief that needs only values, such as Chebyshev or CrossInterpolation"


@dataclass(frozen=True)
class Step:
    """One equation of a jaxpr, and which of its inputs move."""

    equation: Any
    moving: tuple[bool, ...]

    @property
    def name(self) -> str:
        return self.equation.primitive.name

    @property
    def params(self) -> dict[str, Any]:
        return self.equation.params

    @property
    def in_shapes(self) -> list[jax.ShapeDtypeStruct]:
        avals = [atom.aval for atom in self.equation.invars]
        return [jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in avals]

    def only_moving(self, inputs: Sequence[Any]) -> list[Any]:
        return [x for x, moves in zip(inputs, self.moving, strict=True) if moves]

    def evaluate(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the outputs for these arrays."""
        primitive = self.equation.primitive
        params: Any = primitive.get_bind_params(self.params)
        # before JAX 0.12 the functions inside custom_jvp_call stood apart from its other parameters
        functions, params = params if isinstance(params, tuple) else ((), params)
        outputs = primitive.bind(*functions, *inputs, **params)
        return list(outputs) if primitive.multiple_results else [outputs]

    @property
    def operation(self) -> Any:
        """What two steps have in common that do the same, to whatever inputs of the same shapes."""
        params: Any = tuple(sorted(self.params.items()))
        try:
            hash(params)
        except TypeError:  # a list or an array among the parameters: equal to nothing but itself
            params = id(self.equation)
        return self.equation.primitive, params, tuple(self.in_shapes), self.moving

    def rewritten(self) -> Callable[..., Array] | None:
        """Return an equal function whose series is cheaper, or safer, than what the tangent gives."""
        if self.name == "integer_pow":
            return lambda x: _integer_power(x, self.params["y"])
        if self.name == "pow" and not self.moving[1]:
            return _constant_power
        if self.name == "clamp":
            return lambda low, x, high: jnp.minimum(jnp.maximum(x, low), high)
        return None


@dataclass(frozen=True)
class Tangent:
    """The first derivative of a step.

    `program` is a jaxpr whose inputs are those of the step and then a direction for each of the moving ones.
    """

    program: Any
    values: tuple[Any, ...]  # the variables of `program` that hold the outputs of the step,
    directions: tuple[Any, ...]  # and those that hold their directions
    moves: tuple[bool, ...]
    is_linear: bool

    @staticmethod
    def of(step: Step) -> Tangent:
        """Trace the derivative with `jax.jvp`."""

        def values_and_directions(inputs: list[Any], directions: list[Any]) -> tuple[list[Any], list[Any]]:
            def of_moving(*moved: Any) -> list[Any]:
                left = iter(moved)
                return step.evaluate([next(left) if moves else x for x, moves in zip(inputs, step.moving, strict=True)])

            values, tangents = jax.jvp(of_moving, tuple(step.only_moving(inputs)), tuple(directions))
            # the tangent of an integer is of a dtype that no equation can produce
            return values, [t if _is_smooth(v) else 0.0 for v, t in zip(values, tangents, strict=True)]

        shapes = step.in_shapes
        try:
            program = jax.make_jaxpr(values_and_directions)(shapes, step.only_moving(shapes))
        except NotImplementedError as error:
            message = f"JAX has no derivative of `{step.name}`, hence there is no Taylor series: {CURE}"
            raise NotImplementedError(message) from error
        jaxpr = open_jaxpr(program)
        half = len(jaxpr.outvars) // 2
        values, directions = jaxpr.outvars[:half], jaxpr.outvars[half:]
        after_directions = reached_from(jaxpr, jaxpr.invars[len(shapes) :])
        after_inputs = reached_from(jaxpr, step.only_moving(jaxpr.invars[: len(shapes)]))
        moves = tuple(is_variable(var) and var in after_directions for var in directions)
        is_linear = not any(m and var in after_inputs for var, m in zip(directions, moves, strict=True))
        return Tangent(program, tuple(values), tuple(directions), moves, is_linear)

    def given(self, outputs: Sequence[Any]) -> dict[Any, Any]:
        """Return the variables that hold the outputs of the step, with these values."""
        return {var: value for var, value in zip(self.values, outputs, strict=True) if is_variable(var)}


def open_jaxpr(program: Any) -> Any:
    """Return the jaxpr itself, in JAX versions that wrap one with its constants and in those that don't."""
    return getattr(program, "jaxpr", program)


def is_variable(atom: Any) -> bool:
    """Tell a variable from a literal number."""
    return not isinstance(atom, core.Literal)


def live_equations(jaxpr: Any, wanted: Collection[Any], given: Collection[Any]) -> list[Any]:
    """Return the equations needed for the wanted variables when others are given."""
    needed = {atom for atom in wanted if is_variable(atom)} - set(given)
    live = []
    for equation in reversed(jaxpr.eqns):
        if needed.intersection(equation.outvars):
            live.append(equation)
            needed.update(atom for atom in equation.invars if is_variable(atom) and atom not in given)
    return live[::-1]


def reached_from(jaxpr: Any, sources: Collection[Any]) -> set[Any]:
    """Return the variables that depend on the sources through floating-point numbers."""
    reached = set(sources)
    for equation in jaxpr.eqns:
        if any(is_variable(atom) and atom in reached for atom in equation.invars):
            reached.update(var for var in equation.outvars if _is_smooth(var.aval))
    return reached


def outputs_that_move(program: Any, moving: Sequence[bool]) -> list[bool]:
    """Return which outputs of a jaxpr move when these inputs do."""
    jaxpr = open_jaxpr(program)
    reached = reached_from(jaxpr, [var for var, moves in zip(jaxpr.invars, moving, strict=True) if moves])
    return [is_variable(var) and var in reached for var in jaxpr.outvars]


def _is_smooth(x: Any) -> bool:
    return jnp.issubdtype(x.dtype, jnp.inexact)


def _integer_power(x: Array, exponent: int) -> Array:
    """Return x^n by repeated squaring: log2(n) products instead of n derivatives."""
    if exponent < 0:
        return lax.div(lax.full_like(x, 1), _integer_power(x, -exponent))
    if exponent <= 1:
        return x if exponent else lax.full_like(x, 1)
    root = _integer_power(x, exponent // 2)
    return lax.square(root) * x if exponent % 2 else lax.square(root)


@jax.custom_jvp
def _constant_power(x: Array, exponent: Array) -> Array:
    """Return x^r for an exponent that does not move.

    JAX has d(x^r) = r x^(r-1), which is 0 * inf at x = 0 once r has come down to 0: there x**3.0 would have
    no fourth derivative.
    """
    return lax.pow(x, exponent)


@_constant_power.defjvp
def _constant_power_jvp(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Array, Array]:
    x, exponent = primals
    is_flat = exponent == 0
    lowered = _constant_power(x, jnp.where(is_flat, jnp.ones_like(exponent), exponent - 1))
    slope = jnp.where(is_flat, jnp.zeros_like(x), exponent * lowered)
    return lax.pow(x, exponent), slope * tangents[0]
