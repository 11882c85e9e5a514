"""Carry a Taylor series through `lax.scan` and `lax.cond`.

A loop or a branch is run again, once, on all coefficients at a time: what was an array x in its carry becomes
the tuple (x_0, ..., x_k). Values at t = 0 decide which branch is taken.

Asked for one order more, it has to be run once more. That happens only inside a derivative that contains a
loop (a `jax.custom_jvp` function with a scan in its rule), which is then run M times.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from paramfilter.polynomials.equations import Step, outputs_that_move
from paramfilter.polynomials.series import Coefficient, Series, truncated, written_out

Value = Any
"""What a variable of a jaxpr holds here: an array, or a `Series` of arrays."""

Run = Callable[[int, Any, Sequence[Value]], list[Value]]
"""`run(order, program, inputs)`: the outputs of a jaxpr, with all series known to this order."""

Solve = Callable[[int], Sequence[Any]]
"""`solve(order)`: for each output that moves, its coefficients 0 to order."""


def scan_series(step: Step, inputs: Sequence[Value], run: Run) -> tuple[list[bool], Solve]:
    """Return which outputs of a scan move, and how to find their coefficients."""
    body, equation = step.params["jaxpr"], step.equation
    # What is sliced or stacked has one axis more outside than inside. (Parameters say the same, but each JAX
    # version in its own way.)
    num_xs = sum(a.aval.ndim != b.ndim for a, b in zip(equation.invars, body.in_avals, strict=True))
    num_ys = sum(a.aval.ndim != b.ndim for a, b in zip(equation.outvars, body.out_avals, strict=True))
    num_carry = len(equation.outvars) - num_ys
    num_consts = len(equation.invars) - num_xs - num_carry
    carry = slice(num_consts, num_consts + num_carry)

    moving = list(step.moving)
    for _ in range(num_carry + 1):  # what moves in one turn moves in the next; each round finds one more, or none
        moves = outputs_that_move(body, moving)
        moving[carry] = [old or new for old, new in zip(moving[carry], moves[:num_carry], strict=True)]
    moves = moving[carry] + outputs_that_move(body, moving)[num_carry:]

    @functools.cache
    def solve(order: int) -> Sequence[Any]:
        packed = [_packed(value, order, m) for value, m in zip(inputs, moving, strict=True)]
        consts, start, xs = packed[:num_consts], packed[carry], packed[num_consts + num_carry :]

        def turn(carried: list[Any], x: list[Any]) -> tuple[list[Any], list[Any]]:
            outputs = run(order, body, [_unpacked(value) for value in [*consts, *carried, *x]])
            repacked = [_packed(value, order, m) for value, m in zip(outputs, moves, strict=True)]
            return repacked[:num_carry], repacked[num_carry:]

        how = {name: step.params[name] for name in ("length", "reverse", "unroll")}
        last, ys = lax.scan(turn, start, xs, **how)
        return [*last, *ys]

    return moves, solve


def cond_series(step: Step, inputs: Sequence[Value], run: Run) -> tuple[list[bool], Solve]:
    """Return which outputs of a cond or switch move, and how to find their coefficients."""
    branches, moving = step.params["branches"], step.moving[1:]
    by_branch = [outputs_that_move(branch, moving) for branch in branches]
    moves = [any(some) for some in zip(*by_branch, strict=True)]

    @functools.cache
    def solve(order: int) -> Sequence[Any]:
        def taken(branch: Any, *packed: Any) -> list[Any]:
            outputs = run(order, branch, [_unpacked(value) for value in packed])
            return [_packed(value, order, m) for value, m in zip(outputs, moves, strict=True)]

        packed = [_packed(value, order, m) for value, m in zip(inputs[1:], moving, strict=True)]
        return lax.switch(inputs[0], [functools.partial(taken, branch) for branch in branches], *packed)

    return moves, solve


def coefficient_of(value: Value, k: int) -> Coefficient:
    """Return coefficient k of an array or a series."""
    if isinstance(value, Series):
        return value[k]
    return None if k > 0 else value


def coefficients_of(value: Value, order: int) -> list[Array]:
    """Return coefficients 0 to order of an array or a series, zeros included."""
    first = jnp.asarray(coefficient_of(value, 0))
    return [first] + [written_out(coefficient_of(value, k), like=first) for k in range(1, order + 1)]


def _packed(value: Value, order: int, moves: bool) -> Any:
    return tuple(coefficients_of(value, order)) if moves else value


def _unpacked(value: Any) -> Value:
    return truncated(value) if isinstance(value, tuple) else value
