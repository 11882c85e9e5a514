"""Trees as rows of numbers and back: the form in which quantiles are computed.

Quantiles of a parameter with a support of its own, such as a variance, are computed in its unconstrained coordinate,
where it is closer to a normal distribution, and mapped back: an increasing map takes quantiles to quantiles. This holds
for maps of single numbers. A simplex or an ordered vector is taken on its natural scale.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree
from numpyro.distributions.transforms import IndependentTransform

from paramfilter.parameters import Parameters


def as_points(parameters: Parameters, z: Float[Array, "particle param"]) -> Float[Array, "particle component"]:
    """Return the points whose quantiles `as_theta` takes: coordinates, or values where a map mixes components."""
    names = parameters.names
    if all(is_of_single_numbers(parameters, name) for name in names):
        return z
    theta = jax.vmap(parameters.constrain)(z)
    rows = [
        z[:, parameters.slices[name]] if is_of_single_numbers(parameters, name) else ravel_rows(theta[name])
        for name in names
    ]
    return jnp.concatenate(rows, axis=1)


def as_theta(parameters: Parameters, quantiles: Float[Array, "level component"]) -> dict[str, Array]:
    """Map quantiles of the points to quantiles of each parameter, on the natural scale, in increasing order."""
    found, start = {}, 0
    for name in parameters.names:
        shape = parameters.prior[name].shape()
        stop = start + int(np.prod(shape, dtype=int))
        rows = quantiles[:, start:stop].reshape(len(quantiles), *shape)
        found[name], start = rows, stop
        if is_of_single_numbers(parameters, name):
            values = jax.vmap(parameters.bijectors[name])(rows)
            # A map that decreases, to a support with an upper bound alone, turns the order of levels round.
            found[name] = jnp.where(values[0] > values[-1], values[::-1], values)
    return found


def ravel_rows(tree: PyTree) -> Float[Array, "particle component"]:
    """Put the leaves of a tree side by side; the leading axis stays."""
    leaves = jax.tree.leaves(tree)
    return jnp.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves], axis=1)


def unravel_rows(like: PyTree, rows: Float[Array, "level component"]) -> PyTree:
    """Give rows the form of a tree whose leaves are without their leading axis."""
    leaves, structure = jax.tree.flatten(like)
    parts = jnp.split(rows, np.cumsum([leaf.size for leaf in leaves])[:-1], axis=1)
    shaped = [part.reshape(len(rows), *leaf.shape) for part, leaf in zip(parts, leaves, strict=True)]
    return structure.unflatten(shaped)


def is_of_single_numbers(parameters: Parameters, name: str) -> bool:
    """Tell whether a parameter's map from coordinates treats each number on its own."""
    bijector: Any = parameters.bijectors[name]
    while isinstance(bijector, IndependentTransform):
        bijector = bijector.base_transform
    return bijector.domain.event_dim == 0 and bijector.codomain.event_dim == 0
