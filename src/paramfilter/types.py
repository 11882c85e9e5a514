"""Names for the things that flow through every signature.

Shapes are spelled with words from one list, so that a signature reads as a sentence:
`time particle series state obs param node coeff draw`. `param` counts unconstrained coordinates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaxtyping import Array, Key, PyTree

KeyArray = Key[Array, ""]
"""One typed random key, as `jax.random.key` makes it."""

Theta = Mapping[str, Any]
"""Parameters by name, on their natural scale: `{"phi": 0.9, "sigma": 0.1}`."""

State = PyTree
"""One latent state: an array or a pytree of arrays."""

Observation = PyTree
"""One observation: an array or a pytree of arrays. NaN means missing, whole or by component."""

Inputs = PyTree
"""What the model is told at a step (covariates, time, dt): any pytree, or None."""
