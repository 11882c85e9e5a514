"""Inside a JAX trace or outside of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.core import Tracer

RUN_ONCE = {"xla_backend_optimization_level": 0}
"""Compiler options for what is not hot: it compiles in half the time, and runs several times slower."""


def is_traced(tree: Any) -> bool:
    """Tell whether some array of a tree has no value yet."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree))


def evaluate(function: Callable, *arguments: Any) -> Any:
    """Evaluate a function of known arrays as one compiled program, even while another function is being traced.

    Called eagerly, each operation would be a program of its own, which takes 30 ms to compile.

    >>> import numpy as np
    >>> jax.jit(lambda x: x * float(evaluate(lambda y: y + 1.0, np.float32(2.0))))(5.0).item()
    15.0
    """
    return jax.jit(function).lower(*arguments).compile(RUN_ONCE)(*arguments)
