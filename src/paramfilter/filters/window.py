"""One window of data for one compiled program.

The window has a fixed length and the number of steps is an argument. So data of any length, and one more observation,
use the same program: what `run` has compiled, `step` finds, and both give the same bits.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

WINDOW = 256
"""Rows of data that one call of the program can take."""


def window_of(tree: Any, start: int = 0, size: int = WINDOW, axis: int = 0) -> Any:
    """Cut `size` rows from `start` out of each array, filled up with zeros that no step will see.

    NumPy does it: JAX would compile a program for each length.
    """

    def cut(leaf):
        rows = np.asarray(leaf)[(slice(None),) * axis + (slice(start, start + size),)]
        if rows.shape[axis] == size:
            return rows
        window = np.zeros((*rows.shape[:axis], size, *rows.shape[axis + 1 :]), rows.dtype)
        window[(slice(None),) * axis + (slice(rows.shape[axis]),)] = rows
        return window

    return jax.tree.map(cut, tree)
