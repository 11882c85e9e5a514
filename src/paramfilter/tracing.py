"""Inside a JAX trace or outside of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from paramfilter.config import use_compilation_cache

RUN_ONCE = {"xla_backend_optimization_level": 0}
"""Compiler options for what is not hot: it compiles in half the time, and runs several times slower."""


def is_traced(tree: Any) -> bool:
    """Tell whether some array of a tree has no value yet."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree))


def strongly_typed(tree: Any) -> Any:
    """Give each leaf a definite dtype, so that a scan or a second step sees the same type as the first."""
    return jax.tree.map(lambda leaf: jax.lax.convert_element_type(leaf, jnp.result_type(leaf)), tree)


def numbers(*trees: Any) -> Any:
    """Return the module that computes with these arrays: `jax.numpy` while they are traced, and else NumPy.

    What is written in terms of it needs no compiling where values are known.
    """
    return jnp if is_traced(trees) else np


def on_host(tree: Any) -> Any:
    """Turn arrays of JAX into NumPy's, keys apart, so that arithmetic with them compiles nothing; not while traced."""
    is_key = lambda leaf: jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return jax.tree.map(lambda leaf: leaf if is_key(leaf) else np.asarray(leaf), tree)


def loop_while(goes_on: Callable[[Any], Any], turn: Callable[[Any], Any], start: Any, *, traced: bool) -> Any:
    """Do as `lax.while_loop` does; while nothing is traced, without compiling."""
    if traced:
        return jax.lax.while_loop(goes_on, turn, start)
    found = start
    while goes_on(found):
        found = turn(found)
    return found


def evaluate(function: Callable, *arguments: Any) -> Any:
    """Evaluate a function of known arrays as one compiled program, even while another function is being traced.

    Called eagerly, each operation would be a program of its own, which takes 30 ms to compile.

    >>> import numpy as np
    >>> jax.jit(lambda x: x * float(evaluate(lambda y: y + 1.0, np.float32(2.0))))(5.0).item()
    15.0
    """
    use_compilation_cache()
    return jax.jit(function).lower(*arguments).compile(RUN_ONCE)(*arguments)
