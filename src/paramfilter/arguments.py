"""Is an argument what its place asks for? Asked at every public door, in the user's words.

A seed where a key belongs, arguments in another order, 10.5 particles: each is refused before anything is compiled,
with what was found and what to do. All of it can be asked of traced values too: their kinds and shapes are known.
JAX is imported only where an array may be met, so that a mistyped name on the command line is answered at once.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from paramfilter.errors import ArgumentError, ParamfilterError


def require_key(key: Any, call: str) -> None:
    """Refuse what is not one typed random key; `call` shows how the function is called."""
    if _is_typed_key(key) and key.shape == ():
        return
    cure = "Make one with jax.random.key(0)"
    if _is_typed_key(key):
        cure = "Take one of them, or use jax.vmap over them"
    elif getattr(key, "shape", None) == (2,):
        cure = "jax.random.PRNGKey makes keys of the old kind; use jax.random.key(0)"
    raise ArgumentError(f"key must be one typed random key, got {kind_of(key)}. {cure}; the call is {call}.")


def require_kind(value: Any, kind: type, name: str, cure: str) -> None:
    """Refuse a value of another class."""
    if not isinstance(value, kind):
        raise ArgumentError(f"{name} must be a {kind.__name__}, got {kind_of(value)}. {cure}")


MOST_LETTERS = 200
"""Of the description of a tree: enough for a dozen names."""

MOST = 2**31 - 1
"""Things that can be counted: what 32 bits hold."""


def whole_number(value: Any, name: str, least: int, cure: str, error: type[ParamfilterError] = ArgumentError) -> int:
    """Return a number of things as Python's own kind of integer, or refuse it."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or not least <= number <= MOST:
        limit = f"{least}" if number is None or number < least else f"{least} and at most {MOST}"
        raise error(f"{name} must be a whole number of at least {limit}, got {kind_of(value)}. {cure}")
    return number


def positive(value: Any, name: str, cure: str, error: type[ParamfilterError] = ArgumentError) -> float:
    """Return a positive number, or refuse it."""
    if isinstance(value, int | float) and 0 < value < float("inf"):
        return float(value)
    raise error(f"{name} must be a positive number, got {kind_of(value)}. {cure}")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the hint "; did you mean ...?" if a known name is like the one that was given.

    >>> did_you_mean("resample", ["resampling", "memory"]), did_you_mean("x", ["y"])
    ('; did you mean resampling?', '')
    """
    near = get_close_matches(name, known, 1)
    return f"; did you mean {near[0]}?" if near else ""


def kind_of(value: Any) -> str:
    """Say what a value is: "an array of shape (2,)", "the class Normal", "None".

    >>> kind_of(0), kind_of("W03"), kind_of([1, 2]), kind_of(ValueError)
    ('0', "'W03'", 'a list', 'the class ValueError')
    """
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if _is_typed_key(value):
        return "a random key" if value.shape == () else f"random keys of shape {value.shape}"
    import jax
    import numpy as np

    if isinstance(value, jax.Array | np.ndarray):
        return f"an array of shape {value.shape}"
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOUaeio' else 'a'} {name}"


def describe(tree: Any) -> str:
    """Say what a tree of arrays looks like, such as `{place: float32[2]}`, in not too many words."""
    import jax

    words = lambda leaf: f"{leaf.dtype}{list(leaf.shape)}" if hasattr(leaf, "dtype") else kind_of(leaf)
    text = str(jax.tree.map(words, tree)).replace("'", "")
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}..."


def _is_typed_key(value: Any) -> bool:
    import jax
    import jax.numpy as jnp

    return isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
