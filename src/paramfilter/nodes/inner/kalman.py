"""The Kalman filter: exact for a model that is linear and Gaussian given theta, also if some components have no noise.

    x_t = A x_{t-1} + b + N(0, Q),    y_t = H x_t + d + N(0, R),    x_0 ~ N(m_0, P_0)

A..R are read off the user's own distributions (see `inspect.linear_gaussian`), once for each node if the model has no
inputs and at each step if it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Array, Float

from paramfilter import distributions
from paramfilter.inspect.linear_gaussian import linear_model
from paramfilter.model import StateSpaceModel
from paramfilter.nodes.inner.base import Constants, InnerState, nodes_last
from paramfilter.nodes.inner.forecast import Forecast
from paramfilter.nodes.inner.linear import forecast
from paramfilter.nodes.inner.linear_moves import LinearMoves
from paramfilter.numerics.kalman import absorb
from paramfilter.types import Inputs, Observation, Theta

ASKER, OTHERWISE = "the Kalman filter", "pass inner=None, and the filter that suits the model is chosen."


@dataclass(frozen=True, eq=False)
class Kalman(LinearMoves):
    """A mean and a covariance at each node, updated exactly."""

    is_exact: ClassVar[bool] = True

    @classmethod
    def bind(cls, model: StateSpaceModel) -> Kalman:
        """Fit a model, or raise `ModelError` saying where it bends."""
        return cls(model, linear_model(model, ASKER, OTHERWISE))

    def prepare(self, theta: Theta) -> Constants:
        if self.model.example_inputs is not None:
            return theta
        return nodes_last(lambda one: self._matrices(one, None))(theta)

    def _matrices(self, theta: Theta, inputs: Inputs) -> dict[str, Array]:
        """Return A, b, Q and H, d, R."""
        return self.linear.move(theta, inputs) | self.linear.look(theta, inputs)

    def step(
        self, constants: Constants, x: InnerState, y: Observation, inputs: Inputs
    ) -> tuple[InnerState, Float[Array, " node"]]:
        at, predicted = self._predicted(constants, x, inputs)
        found = absorb(predicted["mean"], predicted["covariance"], at, distributions.ravel(y))
        mean, covariance, log_likelihood = found
        return {"mean": mean, "covariance": covariance}, log_likelihood

    def _predicted(self, constants: Constants, x: InnerState, inputs: Inputs) -> tuple[dict[str, Array], InnerState]:
        """Return the matrices of this step, and mean and covariance of the next state."""
        at = constants
        if self.model.example_inputs is not None:
            at = nodes_last(lambda theta: self._matrices(theta, inputs))(constants)
        return at, self.moved(at, x)

    def forecast(self, constants: Constants, x: InnerState, y: Observation, inputs: Inputs) -> Forecast:
        at, predicted = self._predicted(constants, x, inputs)
        return forecast(predicted["mean"], predicted["covariance"], at, distributions.ravel(y))
