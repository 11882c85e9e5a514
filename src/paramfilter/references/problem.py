"""What a reference is asked: a model and its data, checked and in float64, with the state laid out as a vector.

Every function here, and every caller, runs inside `jax.enable_x64(True)`: a reference does not inherit the precision of
the filter that it judges.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from paramfilter import distributions
from paramfilter.data import as_inputs, as_observation, common_length
from paramfilter.errors import DataError, ModelError
from paramfilter.model import StateSpaceModel
from paramfilter.types import Inputs, Observation, State

MAX_COORDINATES = 2
"""A tensor grid in three or more coordinates is no longer cheap, nor needed: samplers do that."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A model, its data and the layout of its state.

    Args:
        model: The model.
        ys: Observations with a leading axis of time, float64, NaN where missing.
        inputs: Inputs with a leading axis of time, or None.
        initial_inputs: What `initial` is given, or None.
        num_steps: T.
        state_size: The number of components of one state.
        to_state: From a vector of components to a state as the model knows it.
    """

    model: StateSpaceModel
    ys: Observation
    inputs: Inputs
    initial_inputs: Inputs
    num_steps: int
    state_size: int
    to_state: Callable[[Float[Array, " state"]], State]

    def inputs_at(self, time: int) -> Inputs:
        """Return the inputs of one step."""
        return jax.tree.map(lambda leaf: leaf[time], self.inputs)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Answer:
    """What a method finds at one theta, or at each node of theta with a leading axis.

    Args:
        log_likelihood: log p(y_{1:T} | theta).
        state_mean: E[x_T | y_{1:T}, theta], as a vector.
        state_variance: The variance of each component of x_T.
        edges: The largest filtered density at either end of a grid of the state, over time, times its range.
        excess: By how much the largest row of the transition on such a grid sums to more than one.
    """

    log_likelihood: Any
    state_mean: Any
    state_variance: Any
    edges: Any = None
    excess: Any = None


def few_coordinates(model: StateSpaceModel, reference: str) -> int:
    """Return how many coordinates theta has, or refuse what a tensor grid of them cannot hold."""
    dimension = model.parameters.dimension
    if dimension > MAX_COORDINATES:
        raise ModelError(
            f"{reference} integrates over one or two unconstrained coordinates; this prior has {dimension} "
            f"({', '.join(model.parameters.names)}). Fix all but two of them at known values inside the model, or "
            "compare with a long run of references.pmmh instead."
        )
    return dimension


def problem_of(model: StateSpaceModel, ys: Observation, inputs: Inputs, initial_inputs: Inputs) -> Problem:
    """Check model and data against each other, and convert the data to float64."""
    initial_inputs = in_float64(initial_inputs)
    first = None if inputs is None else in_float64(jax.tree.map(lambda leaf: leaf[0], inputs))
    x, y = _draw_shapes(model, initial_inputs, first)
    unknown = [None] * len(jax.tree.leaves(y))
    ys = in_float64(as_observation(ys, y, unknown, unknown, ("time",)))
    num_steps = common_length(ys)
    inputs = in_float64(as_inputs(inputs, "ys", num_steps))
    if any(bool(jnp.any(jnp.isinf(leaf))) for leaf in jax.tree.leaves(ys)):
        raise DataError("ys holds +inf or -inf. Use NaN for a missing value.")
    flat, to_state = ravel_pytree(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), x))
    return Problem(model, ys, inputs, initial_inputs, num_steps, flat.size, to_state)


def in_float64(tree: Any) -> Any:
    """Convert floating leaves to float64 and leave the others as they are."""

    def convert(leaf):
        leaf = jnp.asarray(leaf)
        return leaf.astype(jnp.float64) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

    return jax.tree.map(convert, tree)


def _draw_shapes(model: StateSpaceModel, initial_inputs: Inputs, inputs: Inputs) -> tuple[Any, Any]:
    """Return the shapes of one state and one observation, without running the model."""

    def draw(key):
        theta = model.parameters.constrain(model.parameters.sample(key))
        x0 = model.sample_initial(key, theta, initial_inputs)
        x1 = model.sample_transition(key, theta, x0, inputs)
        return x0, x1, model.sample_observation(key, theta, x1, inputs)

    x0, x1, y = jax.eval_shape(draw, jax.random.key(0))
    if jax.tree.map(lambda leaf: leaf.shape, x0) != jax.tree.map(lambda leaf: leaf.shape, x1):
        raise ModelError(
            f"initial and transition must draw states of one structure and shape; they draw {x0} and {x1}."
        )
    return x1, y


def flat_observations(ys: Observation) -> Float[Array, "time obs"]:
    """Lay each observation out as a vector."""
    return jax.vmap(distributions.ravel)(ys).astype(jnp.float64)
