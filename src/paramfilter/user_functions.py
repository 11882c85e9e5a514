"""The user's own functions, `initial`, `transition` and `observation`, behind a door that explains what went wrong.

What they raise, and what they return that is not a distribution, becomes a `ModelError` that says with what the
function was called and what to do. A model has its functions behind this door from the start, so the words are the same
wherever one is called: when a filter is built, in a simulation, in a step that was not given the inputs it needs.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax

from paramfilter import distributions
from paramfilter.arguments import describe, kind_of
from paramfilter.errors import ModelError, ParamfilterError

ARGUMENTS = {
    "initial": ("theta", "inputs"),
    "transition": ("theta", "x", "inputs"),
    "observation": ("theta", "x", "inputs"),
}
"""What each function is called with, in this order."""

UNTRACEABLE = (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError)
"""What JAX raises where Python or numpy wants the value of a number that is not known yet."""


def explained(part: str, function: Any) -> Callable[..., Any]:
    """Return the user's function behind a door; refuse at once what cannot be called with its arguments."""
    if hasattr(function, "explains"):
        return function
    call = f"{part}({', '.join(ARGUMENTS[part])})"
    example = f"lambda {', '.join(ARGUMENTS[part])}: dist.Normal(0.0, 1.0)"
    if not callable(function) or distributions.is_distribution(function) or isinstance(function, type):
        raise ModelError(
            f"{part} must be a function, got {kind_of(function)}. Write {part}={example}, with your own distribution."
        )
    _require_arguments(part, call, example, function)

    @functools.wraps(function)
    def door(*arguments):
        try:
            returned = function(*arguments)
        except ParamfilterError:
            raise
        except Exception as error:
            raise ModelError(_explanation(part, call, arguments, error)) from error
        leaves = jax.tree.leaves(returned, is_leaf=distributions.is_distribution)
        if not leaves or not all(distributions.is_distribution(leaf) for leaf in leaves):
            raise ModelError(
                f"{call} must return a distribution or a pytree of distributions, got {kind_of(returned)}. Return a "
                "numpyro distribution, for example dist.Normal(mean, sd), and let the filter draw from it."
            )
        return returned

    door.explains = part  # type: ignore[attr-defined]
    return door


def _require_arguments(part: str, call: str, example: str, function: Callable) -> None:
    try:
        signature = inspect.signature(function)
    except ValueError:  # some compiled functions do not tell
        return
    try:
        signature.bind(*ARGUMENTS[part])
    except TypeError as error:
        raise ModelError(
            f"{part} is called as {call}, but yours is {part}{signature}. Write {part}={example}: all of these "
            "arguments are required, also if they are not used."
        ) from error


def _explanation(part: str, call: str, arguments: tuple[Any, ...], error: Exception) -> str:
    given = dict(zip(ARGUMENTS[part], arguments, strict=True))
    seen = ", ".join(f"{name} = {describe(value)}" for name, value in given.items())
    said = f"{type(error).__name__}: {str(error).partition('\n')[0]}".rstrip(".: ")
    return f"{call} raised {said}. It was called with {seen}. {_cure(given, error)}"


def _cure(given: dict[str, Any], error: Exception) -> str:
    if isinstance(error, UNTRACEABLE):
        return "The model is compiled by JAX: use jnp.where in place of if, and jax.numpy in place of math and numpy."
    if given["inputs"] is None and "NoneType" in str(error):
        return (
            "If it reads inputs, give them: those of one step to StateSpaceModel(..., example_inputs=...), and "
            "inputs=... to init, step, run, simulate or predict."
        )
    cure = "Compare this with the function: its names must be spelled as here, and its arguments come in this order."
    return f"{cure} If {error} is a parameter, add it to the prior." if isinstance(error, KeyError) else cure
