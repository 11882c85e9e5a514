"""Names for the things that flow through every signature.

Shapes are spelled with words from one list, so that a signature reads as a sentence:
`time particle series state obs param node coeff draw`. `param` counts unconstrained coordinates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Array, Key, PyTree

KeyArray = Key[Array, ""]
"""One typed random key, as `jax.random.key` makes it."""

Theta = Mapping[str, Any]
"""A dict of parameters in their original units: `{"phi": 0.9, "sigma": 0.1}`."""

State = PyTree
"""One latent state: an array or a pytree of arrays."""

Observation = PyTree
"""One observation: an array or a pytree of arrays. NaN means missing, whole or by component."""

Inputs = PyTree
"""Covariates of a step, such as time, dt or a control: any pytree, or None."""

if TYPE_CHECKING:
    Numbers = Any  # what one module has, the other has: code that is written for both mixes them freely
else:
    Numbers = Array | np.ndarray | np.generic
"""Of NumPy, or of JAX while they are traced; a sum of NumPy's is a scalar of its own."""
