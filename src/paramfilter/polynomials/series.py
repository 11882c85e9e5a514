"""Taylor coefficients of a JAX function along a line, by `jax.experimental.jet` and first derivatives.

`jet` expands one equation of the function's jaxpr at a time. The first derivative is integrated instead (y = g(x) has
y' = dg(x) x', which is needed to one order less) where `jet` has no rule (lgamma, tan, Cholesky), ignores a derivative
that was given by `jax.custom_jvp`, or needs x > 0 for a constant power and x != 0 for an angle.

A value that moves along the line is the list [x_0, ..., x_M] of its coefficients; any other value stays an array.
Comparisons and indices follow the values at the center. At a tie, abs, max and min follow the side t > 0, so that a
smooth function made from them, such as softplus, is expanded correctly there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.jet import jet
from jax.extend import core
from jaxtyping import Array, Float

CALLS = ("jit", "remat2", "checkpoint", "closed_call", "custom_vjp_call")
"""Primitives that only wrap a jaxpr."""

CURE = "use a belief that needs only values, such as Grid"


def series_along(
    function: Callable[[Float[Array, " param"]], Array],
    center: Float[Array, " param"],
    direction: Float[Array, " param"],
    order: int,
) -> Array:
    """Return the Taylor coefficients of t -> function(center + t direction), on a new leading axis.

    >>> c = series_along(lambda u: jnp.exp(u[0]), jnp.zeros(1), jnp.ones(1), order=3)
    >>> [round(float(v), 4) for v in c]
    [1.0, 1.0, 0.5, 0.1667]
    """
    program = jax.make_jaxpr(function)(center)
    if len(program.out_avals) != 1:
        raise TypeError(f"the function must return one array, got {len(program.out_avals)}: stack them")
    line = [center, direction, *_as_series(jnp.zeros_like(center), order)]
    stacked = jnp.stack(_as_series(_run(program, [line[: order + 1]], order)[0], order))
    return lax.convert_element_type(stacked, stacked.dtype)  # drops the weak type that `lambda u: 1.0` has


def _run(program: Any, inputs: Sequence[Any], order: int) -> list[Any]:
    """Return the outputs of a jaxpr; equations that they do not need are skipped."""
    jaxpr = getattr(program, "jaxpr", program)  # some JAX versions wrap a jaxpr with its constants
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*getattr(program, "consts", ()), *inputs], strict=True))
    needed, live = set(map(id, jaxpr.outvars)), []
    for equation in reversed(jaxpr.eqns):
        if needed.intersection(map(id, equation.outvars)):
            needed.update(map(id, equation.invars))
            live.append(equation)

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, core.Literal) else values[atom]

    for equation in reversed(live):
        outputs = _expand(equation, [read(atom) for atom in equation.invars], order)
        values.update(zip(equation.outvars, outputs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _run_in_full(program: Any, order: int, *inputs: Any) -> list[Any]:
    return [_as_series(y, order) if _is_smooth(y) else y for y in _run(program, inputs, order)]


def _expand(equation: Any, inputs: list[Any], order: int) -> list[Any]:
    """Return the outputs of one equation, by the first rule that fits."""
    name, params = equation.primitive.name, equation.params
    moving = [i for i, x in enumerate(inputs) if isinstance(x, list)]
    curves = [inputs[i] for i in moving]

    def evaluate(*moved: Any) -> list[Any]:
        left = iter(moved)
        return _evaluate(equation, [next(left) if isinstance(x, list) else x for x in inputs])

    if order == 0 or not moving:
        return evaluate(*(x[0] for x in curves))
    if name in CALLS:
        return _run(params["jaxpr" if "jaxpr" in params else "call_jaxpr"], inputs, order)
    if name in ("while", "scan"):
        raise NotImplementedError(
            f"no Taylor series passes through `{name}` when the loop depends on the parameters. Write it as a Python "
            f"loop, or {CURE}."
        )
    if name == "cond":
        branches = [functools.partial(_run_in_full, branch, order) for branch in params["branches"]]
        return lax.switch(inputs[0], branches, *inputs[1:])
    if name in RULES:
        return [RULES[name](*(_as_series(x, order) for x in inputs))]
    if name == "triangular_solve" and 0 in moving:
        return [_triangular_solve(equation, *(_as_series(x, order) for x in inputs))]
    if (name in ("mul", "dot_general") and len(moving) == 1) or (name == "div" and moving == [0]):
        return [[evaluate(x)[0] for x in curves[0]]]
    if name not in ("custom_jvp_call", "atan2") and (name != "pow" or 1 in moving):
        try:
            _, others = jet(evaluate, [x[0] for x in curves], [x[1:] for x in curves], factorial_scaled=False)
            # jet's own value has lost digits in log1p and expm1
            return _joined(evaluate(*(x[0] for x in curves)), others)
        except KeyError:  # jet has no rule
            pass
    return _integrate(name, evaluate, curves)


def _evaluate(equation: Any, inputs: Sequence[Any]) -> list[Any]:
    params: Any = equation.primitive.get_bind_params(equation.params)
    # before JAX 0.12 the functions inside custom_jvp_call stood apart from its other parameters
    functions, params = params if isinstance(params, tuple) else ((), params)
    outputs = equation.primitive.bind(*functions, *inputs, **params)
    return list(outputs) if equation.primitive.multiple_results else [outputs]


def _integrate(name: str, evaluate: Callable[..., list[Any]], curves: list[list[Any]]) -> list[Any]:
    """Return the outputs of a primitive that is known through its first derivative."""

    def tangents(points: list[Any], speeds: list[Any]) -> list[Any]:
        values, slopes = jax.jvp(evaluate, points, speeds)
        return [slope if _is_smooth(y) else 0.0 for y, slope in zip(values, slopes, strict=True)]

    points, order = [x[0] for x in curves], len(curves[0]) - 1
    try:
        program = jax.make_jaxpr(tangents)(points, points)
    except NotImplementedError as error:
        message = f"JAX has no derivative of `{name}`, hence there is no Taylor series: {CURE}."
        raise NotImplementedError(message) from error
    speeds = [[k * x[k] for k in range(1, order + 1)] for x in curves]
    slopes = _run(program, [*(x[:-1] for x in curves), *speeds], order - 1)
    others = [[slope / k for k, slope in enumerate(_as_series(y, order - 1), start=1)] for y in slopes]
    return _joined(evaluate(*points), others)


def _larger(x: list[Array], y: list[Array]) -> list[Array]:
    """Return max(x, y) for small t > 0: the first coefficient in which they differ decides."""
    sign = jnp.zeros_like(x[0])
    for a, b in zip(x, y, strict=True):
        sign = jnp.where(sign == 0, jnp.sign(a - b), sign)
    return [jnp.where(sign > 0, a, b) for a, b in zip(x, y, strict=True)]


def _negative(x: list[Array]) -> list[Array]:
    return [-a for a in x]


def _smaller(x: list[Array], y: list[Array]) -> list[Array]:
    return _negative(_larger(_negative(x), _negative(y)))


RULES: dict[str, Callable[..., list[Array]]] = {
    "abs": lambda x: _larger(x, _negative(x)),
    "max": _larger,
    "min": _smaller,
    "clamp": lambda low, x, high: _smaller(_larger(x, low), high),
}


def _triangular_solve(equation: Any, a: list[Array], b: list[Array]) -> list[Array]:
    """Return y with a y = b, or y a = b: y_k = a_0^{-1} (b_k - sum_{j<k} a_{k-j} y_j)."""
    how = equation.params
    off = 1 if how["unit_diagonal"] else 0
    parts = [jnp.tril(x, -off) if how["lower"] else jnp.triu(x, off) for x in a]
    parts = [x.mT if how["transpose_a"] else x for x in parts]
    y: list[Array] = []
    for k, rest in enumerate(b):
        for j in range(k):
            left, right = (parts[k - j], y[j]) if how["left_side"] else (y[j], parts[k - j])
            rest -= jnp.matmul(left, right, precision=lax.Precision.HIGHEST)
        y += _evaluate(equation, [a[0], rest])
    return y


def _joined(firsts: list[Any], others: list[list[Any]]) -> list[Any]:
    return [[y, *rest] if _is_smooth(y) else y for y, rest in zip(firsts, others, strict=True)]


def _as_series(x: Any, order: int) -> Any:
    """Return all coefficients of a value, zeros included."""
    return x if isinstance(x, list) else [jnp.asarray(x)] + [jnp.zeros_like(x)] * order


def _is_smooth(x: Any) -> bool:
    return isinstance(x, list) or jnp.issubdtype(jnp.result_type(x), jnp.inexact)
