"""The exact filter of a state with finitely many values: a sum over all of them.

    p(x_t = j | y_1..y_t)  ~  p(y_t | x_t = j) sum_i p(x_t = j | x_{t-1} = i) p(x_{t-1} = i | y_1..y_{t-1})

J. Hamilton, A new approach to the economic analysis of nonstationary time series and the business cycle, Econometrica
57 (1989).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from paramfilter import distributions
from paramfilter.errors import ModelError
from paramfilter.inspect.probe import probe
from paramfilter.model import StateSpaceModel
from paramfilter.nodes.inner.base import Constants, InnerFilter, InnerState, nodes_last
from paramfilter.nodes.inner.forecast import Forecast, forecast_of
from paramfilter.numerics.small_matrices import apply
from paramfilter.types import Inputs, KeyArray, Observation, State, Theta

MOST_VALUES = 64


@dataclass(frozen=True, eq=False)
class FiniteState(InnerFilter):
    """The log probability of each value of the state at each node."""

    is_exact: ClassVar[bool] = True
    values: Int[np.ndarray, " value"]

    @classmethod
    def bind(cls, model: StateSpaceModel) -> FiniteState:
        """Fit a model whose state is one whole number out of a few."""
        shapes = probe(model)
        leaves = jax.tree.leaves(shapes.x)
        if len(leaves) != 1 or leaves[0].shape != () or jnp.issubdtype(leaves[0].dtype, jnp.floating):
            raise ModelError("FiniteState needs a state that is one whole number out of a few.")
        theta = model.parameters.constrain(jnp.asarray(model.parameters.prior_draws[0], jnp.result_type(float)))
        law = jax.tree.leaves(model.initial(theta, model.example_inputs), is_leaf=distributions.is_distribution)[0]
        if not getattr(law, "has_enumerate_support", False):
            raise ModelError(f"FiniteState needs values that can be listed; those of a {type(law).__name__} cannot.")
        values = np.asarray(law.enumerate_support(expand=False)).reshape(-1)
        if len(values) > MOST_VALUES:
            raise ModelError(f"FiniteState takes at most {MOST_VALUES} values of the state, got {len(values)}.")
        return cls(model, values.astype(leaves[0].dtype))

    @property
    def name(self) -> str:
        return f"FiniteState({len(self.values)} values)"

    def prepare(self, theta: Theta) -> Constants:
        if self.model.example_inputs is not None:
            return theta
        return {"theta": theta, "moves": nodes_last(lambda one: self._moves(one, None))(theta)}

    def _moves(self, theta: Theta, inputs: Inputs) -> Float[Array, "value value"]:
        """Return p(x_t = j | x_{t-1} = i) in row i and column j."""
        to = lambda before, after: self.model.transition_log_prob(theta, before, after, inputs)
        return jnp.exp(jax.vmap(jax.vmap(to, (None, 0)), (0, None))(self.values, self.values))

    def start(self, theta: Theta, inputs: Inputs) -> InnerState:
        return jnp.exp(jax.vmap(lambda x: self.model.initial_log_prob(theta, x, inputs))(jnp.asarray(self.values)))

    def step(
        self, constants: Constants, x: InnerState, y: Observation, inputs: Inputs
    ) -> tuple[InnerState, Float[Array, " node"]]:
        theta, predicted = self._predicted(constants, x, inputs)
        look = lambda one, x: self.model.observation_log_prob(one, x, y, inputs)
        log_densities = nodes_last(lambda one: jax.vmap(lambda x: look(one, x))(jnp.asarray(self.values)))(theta)
        largest = jnp.max(log_densities, axis=0)
        updated = predicted * jnp.exp(log_densities - largest)
        total = jnp.sum(updated, axis=0)
        return updated / total, largest + jnp.log(total)

    def _predicted(self, constants: Constants, x: InnerState, inputs: Inputs) -> tuple[Theta, Array]:
        """Return theta, and the probability of each value of the next state."""
        if self.model.example_inputs is None:
            theta, moves = constants["theta"], constants["moves"]
        else:
            theta, moves = constants, nodes_last(lambda one: self._moves(one, inputs))(constants)
        return theta, apply(jnp.swapaxes(moves, 0, 1), x)

    def forecast(self, constants: Constants, x: InnerState, y: Observation, inputs: Inputs) -> Forecast:
        theta, predicted = self._predicted(constants, x, inputs)
        look = lambda one, value: forecast_of(self.model.observation(one, value, inputs), y)
        at_values = lambda one: jax.vmap(lambda x: look(one, x), out_axes=1)(jnp.asarray(self.values))
        return nodes_last(at_values)(theta).averaged(predicted)

    def moments(self, x: InnerState) -> tuple[State, State]:
        values = jnp.asarray(self.values, x.dtype)[:, None]
        mean = jnp.sum(x * values, axis=0)
        return mean, jnp.sum(x * (values - mean) ** 2, axis=0)

    def sample(self, key: KeyArray, x: InnerState) -> State:
        return jnp.asarray(self.values)[jax.random.categorical(key, jnp.log(x))]
