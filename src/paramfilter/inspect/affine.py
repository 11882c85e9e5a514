"""Is a function affine in x, whatever its other arguments? Read off its program, primitive by primitive.

A value of the program is free of x, affine in x, or bent; a rule for each primitive says what becomes of what goes in.
Trying a function at some points can miss a bend that an input switches on later, or one that is far away. The program
shows every branch. Where a primitive is not known, the answer is `UNKNOWN`, and the function has to be tried.

>>> import jax.numpy as jnp
>>> affinity(lambda theta, x: jnp.where(theta > 0, theta * x, 1.0), 1)(2.0, 3.0)
[<Affinity.AFFINE: 1>]
>>> affinity(lambda theta, x: (jnp.minimum(x, 40.0), theta**2), 1)(2.0, 3.0)
[<Affinity.BENT: 3>, <Affinity.FREE: 0>]
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr, Literal


class Affinity(enum.IntEnum):
    """How a value depends on x; the greater of two is what a linear combination of them has."""

    FREE = 0
    AFFINE = 1
    UNKNOWN = 2
    BENT = 3


FREE, AFFINE, UNKNOWN, BENT = Affinity


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


LINEAR = _names(
    "add sub add_any neg concatenate reduce_sum broadcast_in_dim reshape squeeze expand_dims transpose slice rev pad "
    "copy copy_p cumsum reduce_precision optimization_barrier real imag complex conj fft reduce_window_sum"
)
"""Linear in all that goes in."""
BILINEAR = frozenset(("mul", "dot_general", "conv_general_dilated"))
FIRST_ONLY = {"div": 1, "triangular_solve": 0}
"""Linear in one of two; the other one, whose place is told, must be free of x."""
PLACED = {
    "gather": (1,),
    "dynamic_slice": slice(1, None),
    "dynamic_update_slice": slice(2, None),
    "scatter": (1,),
    "scatter-add": (1,),
    "scatter_add": (1,),
    "select_n": (0,),
}
"""Linear in all but some places, which hold indices or conditions."""
BENDING = _names(
    "abs acos acosh asin asinh atan atan2 atanh cbrt ceil clamp cos cosh digamma erf erf_inv erfc exp exp2 expm1 floor "
    "integer_pow lgamma log log1p logistic max min pow regularized_incomplete_beta rem round rsqrt sign sin sinh sqrt "
    "square tan tanh eq ne lt le gt ge is_finite reduce_max reduce_min reduce_prod cumprod cummax cummin cumlogsumexp "
    "argmax argmin sort igamma igammac polygamma nextafter"
)


def affinity(function: Callable[..., Any], argument: int) -> Callable[..., list[Affinity]]:
    """Return a function of example arguments that tells how each array of the result depends on one of them."""

    def read(*arguments: Any) -> list[Affinity]:
        program = jax.make_jaxpr(function)(*arguments)
        are_x = [
            AFFINE if number == argument else FREE for number, one in enumerate(arguments) for _ in jax.tree.leaves(one)
        ]
        return _through(program.jaxpr, are_x)

    return read


def _through(program: Any, given: Sequence[Affinity]) -> list[Affinity]:
    """Follow the arguments of a program to its results."""
    program = getattr(program, "jaxpr", program)  # closed or not
    known = dict(zip(program.invars, given, strict=True))
    look = lambda values: [FREE if isinstance(one, Literal) else known.get(one, FREE) for one in values]
    for step in program.eqns:
        inputs = look(step.invars)
        found = _after(step, inputs) if any(inputs) else [FREE] * len(step.outvars)
        known |= zip(step.outvars, found, strict=True)
    return look(program.outvars)


def _after(step: Any, given: list[Affinity]) -> list[Affinity]:
    """Return what the results of one primitive are, if something that goes in depends on x."""
    name, parameters = step.primitive.name, step.params
    if name == "cond":
        branches = [_through(branch, given[1:]) for branch in parameters["branches"]]
        return [_within(max(results), given[:1]) for results in zip(*branches, strict=True)]
    if name in ("scan", "while"):  # the first turn may bend; if it does not, a later one still may
        body, inputs = parameters.get("jaxpr"), given
        if name == "while":
            body, inputs = parameters["body_jaxpr"], given[parameters["cond_nconsts"] :]
        return [BENT if BENT in _through(body, inputs) else UNKNOWN] * len(step.outvars)
    if name == "custom_linear_solve":
        return [_within(max(given), given[: -len(step.outvars)])] * len(step.outvars)
    inner = parameters.get("jaxpr", parameters.get("call_jaxpr"))
    if isinstance(getattr(inner, "jaxpr", inner), Jaxpr):
        return _through(inner, given)
    return [_of_primitive(step, name, given)] * len(step.outvars)


def _of_primitive(step: Any, name: str, given: list[Affinity]) -> Affinity:
    if name in LINEAR:
        return max(given)
    if name in BILINEAR:
        return _within(max(given), [min(given)])
    if name in FIRST_ONLY:
        return _within(max(given), [given[FIRST_ONLY[name]]])
    if name in PLACED:
        places = PLACED[name]
        free = given[places] if isinstance(places, slice) else [given[place] for place in places]
        return _within(max(given), free)
    if name == "convert_element_type":
        return max(given) if jnp.issubdtype(step.params["new_dtype"], jnp.inexact) else _within(BENT, given)
    if name == "integer_pow" and step.params["y"] == 1:
        return max(given)
    return _within(BENT, given) if name in BENDING else UNKNOWN


def _within(result: Affinity, must_be_free: Sequence[Affinity]) -> Affinity:
    """Return the result if some values are free of x; else it is bent, or unknown if they are."""
    if not any(must_be_free):
        return result
    return UNKNOWN if UNKNOWN in must_be_free and result is not BENT else BENT
