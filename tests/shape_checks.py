"""The type checker that tests run under: the shapes in signatures hold at every call.

`pytest` puts jaxtyping's import hook on the package (see `pyproject.toml`) with `check_calls`, which is
beartype for every function and nothing for the constructors of dataclasses. JAX calls those constructors too,
whenever it rebuilds a tree: with one more axis after `vmap` or `scan`, with shapes in place of arrays in
`eval_shape`, with axis numbers in `in_axes`. There the annotation, which speaks of one particle of one
series, rightly does not hold.
"""

from collections.abc import Callable

import beartype


def check_calls(function: Callable) -> Callable:
    """Return the function with its arguments and result checked, unless it is a constructor."""
    return function if function.__name__ == "__init__" else beartype.beartype(function)
