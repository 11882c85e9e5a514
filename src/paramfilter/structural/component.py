"""A component of a structural model, the sum of several, and the parameters that they have.

A component owns a block of the state. It says how the block moves, how noisy the move is, what the block adds to the
linear predictor, and where the block starts:

    x' = move(x) + N(0, diag(noise)^2),    eta = weights(inputs)' x + ...,    x_0 ~ N(0, wide^2)

Its parameters are unknown (a prior) or known (a number). These functions read both from one dict, `values`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float

from paramfilter.arguments import kind_of
from paramfilter.distributions import is_distribution
from paramfilter.errors import ArgumentError, ModelError
from paramfilter.types import Inputs

Values = Mapping[str, Any]
"""The parameters of a model by name, unknown and known ones."""

Given = Any
"""What a user passes for a parameter: a distribution is its prior, a number fixes it, None selects the usual prior."""

Number = Any
"""One number of Python, NumPy or JAX."""

Initial = dist.Normal | None
"""Distribution of a block at t = 0, of all its numbers or of each; None selects the usual one."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a component.

    Attributes:
        given: A prior, a number, or None for the usual prior.
        usual: Makes the usual prior for data of a given scale.
        least: Lower bound of a fixed number.
        most: Upper bound of a fixed number.
    """

    given: Given
    usual: Callable[[float], Any]
    least: float = 0.0
    most: float = math.inf

    def resolve(self, name: str, scale: Number) -> Any:
        """Return the prior, or the number that the parameter is fixed at."""
        if self.given is None:
            return self.usual(scale)
        if is_distribution(self.given):
            return self.given
        if not is_number(self.given) or not self.least <= float(self.given) <= self.most:
            bounds = f"from {self.least:g} to {self.most:g}" if self.most < math.inf else f"of at least {self.least:g}"
            raise ModelError(
                f'"{name}" must be a number {bounds}, or a NumPyro distribution, its prior; got {kind_of(self.given)}. '
                "Leave it out for the usual prior."
            )
        return float(self.given)


def is_number(value: Any) -> bool:
    """Tell whether a value is one number, of Python, NumPy or JAX."""
    return isinstance(value, int | float) or (hasattr(value, "dtype") and np.shape(value) == ())


def half_normal(share: float) -> Callable[[float], Any]:
    """Return the usual prior of a standard deviation: half-normal, `share` of the scale wide."""
    return lambda scale: dist.HalfNormal(share * scale)


def first(inputs: Inputs) -> Any:
    """Return weights of a block whose first number is its contribution; the others follow as zeros."""
    return jnp.ones(1)


@dataclass(frozen=True, eq=False)
class Component:
    """A part of a structural model. The functions of `pf.structural` make components, and `+` adds them.

    Attributes:
        name: Name of its contribution.
        states: A label for each number of its block.
        parameters: Its parameters by name.
        move: `(values, x) ->` the mean of the next block.
        noise: `values ->` the standard deviation of the move of each number.
        wide: Usual standard deviations at t = 0 for data of scale 1; or `values ->` a factor of the covariance.
        weights: `inputs ->` the weights of the block in the predictor.
        inputs: Shapes of the inputs that it reads, by name.
        reports: Further numbers of the block that `decompose` reports, by label.
        has_level: Whether the first number starts at the center of the data.
        initial: Distribution of the block at t = 0 in place of the usual one.
    """

    name: str
    states: tuple[str, ...]
    parameters: Mapping[str, Parameter]
    move: Callable[[Values, Any], Any]
    noise: Callable[[Values], Sequence[Any]]
    wide: tuple[float, ...] | Callable[[Values], Any]
    weights: Callable[[Inputs], Any] = first
    inputs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    reports: tuple[str, ...] = ()
    has_level: bool = False
    initial: Initial = None

    def __post_init__(self):
        size, initial = len(self.states), self.initial
        if initial is not None and (type(initial) is not dist.Normal or initial.batch_shape not in ((), (size,))):
            raise ModelError(
                f'initial of "{self.name}" must be a dist.Normal of one number, or of {size} ({"; ".join(self.states)})'
                f", got {kind_of(initial)}. For example dist.Normal(0.0, 10.0)."
            )

    def __repr__(self) -> str:
        return self.name

    def __add__(self, other: Any) -> Components:
        return Components((self, *components_of(other).parts))

    def row(self, inputs: Inputs) -> Float[Array, " state"]:
        """Return the weights of all numbers of the block."""
        weights = jnp.asarray(self.weights(inputs), float)
        return jnp.concatenate([weights, jnp.zeros(len(self.states) - len(weights))])

    def start(self, values: Values, scale: Number, center: Number) -> tuple[Any, Any]:
        """Return mean and scale of the block at t = 0; the scale is a vector, or a factor of the covariance."""
        size = len(self.states)
        if self.initial is not None:
            mean, sd = (jnp.broadcast_to(jnp.asarray(part), (size,)) for part in (self.initial.loc, self.initial.scale))
            return mean, sd
        mean = jnp.zeros(size).at[0].set(center) if self.has_level else jnp.zeros(size)
        return mean, self.wide(values) if callable(self.wide) else scale * jnp.array(self.wide)


@dataclass(frozen=True, eq=False)
class Components:
    """A sum of components."""

    parts: tuple[Component, ...]

    def __post_init__(self):
        names = [name for part in self.parts for name in dict.fromkeys((part.name, *part.states, *part.parameters))]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ModelError(
                f'two components have the name "{twice[0]}". Give each its own, for example '
                'st.seasonal(7, name="weekly") + st.freq_seasonal(365.25, 2, name="yearly").'
            )

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.parts))

    def __add__(self, other: Any) -> Components:
        return Components((*self.parts, *components_of(other).parts))


def components_of(value: Any) -> Components:
    """Return a sum of components, or refuse what is neither a sum nor a component."""
    if isinstance(value, Components):
        return value
    if isinstance(value, Component):
        return Components((value,))
    hint = " Call the function: st.local_level()." if callable(value) else ""
    raise ArgumentError(
        f"components must be a sum such as st.local_level() + st.seasonal(12), got {kind_of(value)}.{hint}"
    )
