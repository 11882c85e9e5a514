"""The Kalman filter: exact for a model that is linear and Gaussian given theta, also if some components have no noise.

    x_t = A x_{t-1} + b + N(0, Q),    y_t = H x_t + d + N(0, R),    x_0 ~ N(m_0, P_0)

A..R are read off the user's own distributions (see `inspect.linear_gaussian`), once for each node if the model has no
inputs and at each step if it has.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from paramfilter import distributions
from paramfilter.inspect.linear_gaussian import LinearModel
from paramfilter.model import StateSpaceModel
from paramfilter.nodes.inner.base import Constants, InnerFilter, InnerState, nodes_last
from paramfilter.nodes.inner.forecast import Forecast
from paramfilter.nodes.inner.linear import absorb, forecast, linear_model, look_of
from paramfilter.nodes.inner.matrices import apply, product, product_transposed
from paramfilter.types import Inputs, KeyArray, Observation, State, Theta

ASKER, OTHERWISE = "the Kalman filter", "pass inner=None, and the filter that suits the model is chosen."


@dataclass(frozen=True, eq=False)
class Kalman(InnerFilter):
    """A mean and a covariance at each node."""

    linear: LinearModel

    @classmethod
    def bind(cls, model: StateSpaceModel) -> Kalman:
        """Fit a model, or raise `ModelError` saying where it bends."""
        return cls(model, linear_model(model, ASKER, OTHERWISE))

    @property
    def name(self) -> str:
        return "Kalman"

    @property
    def is_exact(self) -> bool:
        return True

    def prepare(self, theta: Theta) -> Constants:
        if self.model.example_inputs is not None:
            return theta
        return nodes_last(lambda one: self._matrices(one, None))(theta)

    def _matrices(self, theta: Theta, inputs: Inputs) -> dict[str, Array]:
        """Return A, b, Q and H, d, R."""
        move = self.linear.transition(theta, inputs)
        return {"A": move.slope, "b": move.intercept, "Q": move.noise.covariance, **look_of(self.linear, theta, inputs)}

    def init(self, theta: Theta, inputs: Inputs) -> InnerState:
        def one(theta):
            law = self.linear.initial(theta, inputs)
            return {"mean": law.mean, "covariance": law.covariance}

        return nodes_last(one)(theta)

    def step(
        self, constants: Constants, x: InnerState, y: Observation, inputs: Inputs
    ) -> tuple[InnerState, Float[Array, " node"]]:
        at, mean, covariance = self._predicted(constants, x, inputs)
        mean, covariance, log_likelihood = absorb(mean, covariance, at, distributions.ravel(y))
        return {"mean": mean, "covariance": covariance}, log_likelihood

    def _predicted(self, constants: Constants, x: InnerState, inputs: Inputs) -> tuple[dict[str, Array], Array, Array]:
        """Return the matrices of this step, and mean and covariance of the next state."""
        at = constants
        if self.model.example_inputs is not None:
            at = nodes_last(lambda theta: self._matrices(theta, inputs))(constants)
        mean = apply(at["A"], x["mean"]) + at["b"]
        return at, mean, product_transposed(product(at["A"], x["covariance"]), at["A"]) + at["Q"]

    def forecast(self, constants: Constants, x: InnerState, y: Observation, inputs: Inputs) -> Forecast:
        at, mean, covariance = self._predicted(constants, x, inputs)
        return forecast(mean, covariance, at, distributions.ravel(y))

    def moments(self, x: InnerState) -> tuple[State, State]:
        to_states = jax.vmap(self.linear.to_state, in_axes=-1)
        return to_states(x["mean"]), to_states(jnp.diagonal(x["covariance"]).T)

    def sample(self, key: KeyArray, x: InnerState) -> State:
        drawn = jax.random.multivariate_normal(key, x["mean"], x["covariance"], method="svd")
        return self.linear.to_state(drawn)
