"""A state-space model with static parameters, written as plain functions that return distributions.

    theta ~ prior
    x_0   ~ initial(theta, inputs)
    x_t   ~ transition(theta, x_{t-1}, inputs_t)
    y_t   ~ observation(theta, x_t, inputs_t)            t = 1, 2, ...

`theta` is a dict of named values on their natural scale; `x` an array or a pytree; `inputs` any pytree, or None. The
first observation is y_1, after one transition from x_0.

>>> import jax, jax.numpy as jnp, numpyro.distributions as dist
>>> model = StateSpaceModel(
...     prior={"phi": dist.Normal(0.0, 1.0)},
...     initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
...     transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x, 1.0),
...     observation=lambda theta, x, inputs: dist.Normal(x, 0.5),
... )
>>> xs, ys = simulate(jax.random.key(0), model, {"phi": 0.9}, num_steps=100)
>>> xs.shape, ys.shape
((100,), (100,))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from paramfilter import distributions
from paramfilter.arguments import describe, require_key, require_kind, whole_number
from paramfilter.data import as_inputs, require_same_names
from paramfilter.errors import ModelError
from paramfilter.labels import prior_in_brief
from paramfilter.parameters import Parameters
from paramfilter.tracing import is_traced, strongly_typed
from paramfilter.types import Inputs, KeyArray, Observation, State, Theta
from paramfilter.user_functions import ARGUMENTS, explained
from paramfilter.waiting import waiting


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Transition:
    """The data of one step: two successive states, and the observation of the second (NaN if missing)."""

    x_prev: State
    x: State
    y: Observation
    inputs: Inputs


@dataclass(frozen=True, eq=False)
class StateSpaceModel:
    """Describe a state-space model by a prior and three functions that return distributions.

    Args:
        prior: A numpyro distribution for each named parameter. Its support bounds the parameter.
        initial: `(theta, inputs) ->` distribution of x_0.
        transition: `(theta, x, inputs) ->` distribution of the next state.
        observation: `(theta, x, inputs) ->` distribution of the observation of `x`.
        name: Name of the model in messages, checkpoints and plots.
        example_inputs: Inputs of one step. Required if the model uses inputs: filters check the model with them.
        typical_inputs: Inputs of many steps, with a leading axis. Pass them instead of `example_inputs` if the effect
            of a parameter depends on the inputs: beliefs are fitted to them before data arrive.

    Example:
        >>> import numpyro.distributions as dist
        >>> model = StateSpaceModel(
        ...     prior={"phi": dist.Uniform(-1.0, 1.0)},
        ...     initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        ...     transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x, 1.0),
        ...     observation=lambda theta, x, inputs: dist.Normal(x, 0.5),
        ... )
    """

    prior: Mapping[str, Any]
    initial: Callable[[Theta, Inputs], Any]
    transition: Callable[[Theta, State, Inputs], Any]
    observation: Callable[[Theta, State, Inputs], Any]
    name: str = "model"
    example_inputs: Inputs = None
    typical_inputs: Inputs = None

    def __post_init__(self):
        for part in ARGUMENTS:
            object.__setattr__(self, part, explained(part, getattr(self, part)))
        if any(np.ndim(leaf) == 0 for leaf in jax.tree.leaves(self.typical_inputs)):
            raise ModelError(
                "typical_inputs must have a leading axis of steps, and one of them is a single number. Pass the inputs "
                "of one step as example_inputs."
            )
        if self.typical_inputs is not None and self.example_inputs is None:
            object.__setattr__(self, "example_inputs", jax.tree.map(lambda leaf: leaf[0], self.typical_inputs))

    def __repr__(self) -> str:
        told = "; with inputs" if self.example_inputs is not None else ""
        return f"{type(self).__name__}({self.name}: parameters {prior_in_brief(self.prior)}{told})"

    @cached_property
    def parameters(self) -> Parameters:
        """The parameters: names, priors, unconstrained coordinates."""
        return Parameters(self.prior)

    def inputs_at(self, index: Int[Array | np.ndarray, "..."]) -> Inputs:
        """Return rows of the typical inputs, starting again at the first after the last."""
        numbers = jnp if is_traced(index) else np
        if self.typical_inputs is None:
            shape = np.shape(index)
            spread = lambda leaf: numbers.broadcast_to(leaf, (*shape, *np.shape(leaf)))
            return jax.tree.map(spread, as_inputs(self.example_inputs))
        return jax.tree.map(lambda leaf: numbers.asarray(leaf)[index % len(leaf)], as_inputs(self.typical_inputs))

    def sample_initial(self, key: KeyArray, theta: Theta, inputs: Inputs) -> State:
        """Draw x_0."""
        return distributions.sample(key, self.initial(theta, inputs))

    def sample_transition(self, key: KeyArray, theta: Theta, x: State, inputs: Inputs) -> State:
        """Draw the next state after `x`."""
        return distributions.sample(key, self.transition(theta, x, inputs))

    def sample_observation(self, key: KeyArray, theta: Theta, x: State, inputs: Inputs) -> Observation:
        """Draw an observation of `x`."""
        return distributions.sample(key, self.observation(theta, x, inputs))

    def initial_log_prob(self, theta: Theta, x: State, inputs: Inputs) -> Float[Array, ""]:
        """Return log p(x_0 | theta)."""
        return distributions.log_prob(self.initial(theta, inputs), x)

    def transition_log_prob(self, theta: Theta, x_prev: State, x: State, inputs: Inputs) -> Float[Array, ""]:
        """Return log p(x | x_prev, theta)."""
        return distributions.log_prob(self.transition(theta, x_prev, inputs), x)

    def observation_log_prob(self, theta: Theta, x: State, y: Observation, inputs: Inputs) -> Float[Array, ""]:
        """Return log p(y | x, theta) of the components of y that are not missing (NaN)."""
        return distributions.log_prob_where_observed(self.observation(theta, x, inputs), y)


def simulate(
    key: KeyArray,
    model: StateSpaceModel,
    theta: Theta,
    num_steps: int,
    inputs: Inputs = None,
    initial_inputs: Inputs = None,
) -> tuple[State, Observation]:
    """Draw states x_1..x_T and observations y_1..y_T from a model with given parameters.

    Args:
        key: Random key, `jax.random.key(seed)`.
        model: The model to simulate.
        theta: A value for each named parameter, such as `{"phi": 0.9}`.
        num_steps: Number of steps T.
        inputs: Covariates, a pytree with a leading axis of length T; None if the model uses none.
        initial_inputs: Covariates for `initial`; None if it uses none.

    Returns:
        States and observations, each with a leading axis of length T.
    """
    call = "simulate(key, model, theta, num_steps)"
    require_key(key, call)
    require_kind(model, StateSpaceModel, "model", f"The call is {call}.")
    num_steps = whole_number(num_steps, "num_steps", 1, f"The call is {call}.")
    theta = model.parameters.as_theta(theta)
    if model.example_inputs is not None:
        require_same_names(inputs, model.example_inputs, model.name)
    inputs = as_inputs(inputs, "num_steps", num_steps)
    initial_inputs = as_inputs(initial_inputs)

    def series(_, key):
        key_initial, key_steps = jax.random.split(key)
        x0 = strongly_typed(model.sample_initial(key_initial, theta, initial_inputs))
        return None, jax.lax.scan(step, x0, (jax.random.split(key_steps, num_steps), inputs))[1]

    def step(x, step_input):
        step_key, inputs_now = step_input
        key_move, key_observe = jax.random.split(step_key)
        x_prev, x = x, strongly_typed(model.sample_transition(key_move, theta, x, inputs_now))
        require_same_kind(x_prev, x)
        return x, (x, model.sample_observation(key_observe, theta, x, inputs_now))

    # A loop with one turn is one program, as jit would be. But jit, met by a constant of NumPy in float64 while 32 bits
    # are on, makes JAX 0.12 fail at the same constant once 64 bits are on ("operand type mismatch").
    with waiting("compiling the simulation"):
        drawn = jax.lax.scan(series, None, key[None])[1]
        return jax.tree.map(lambda leaf: jnp.reshape(leaf, leaf.shape[1:]), drawn)


def require_same_kind(x_prev: State, x: State) -> None:
    """Refuse a transition that draws states of another structure, shape or dtype than `initial` does."""
    first, second = describe(x_prev), describe(x)
    if first != second:
        raise ModelError(
            "initial and transition must draw states of one structure, shape and dtype: initial draws "
            f"{first}, transition draws {second}. Give a scalar state a scalar mean, and a vector state a mean and an "
            "initial distribution of the same length, for example dist.Normal(jnp.zeros(2), 1.0)."
        )
