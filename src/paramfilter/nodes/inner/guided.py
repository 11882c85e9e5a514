"""The assumed density filter for Gaussian moves that are observed linearly: each point of the rule is updated exactly.

Only the mixture of the updated points is matched by a bent Gaussian. The prediction need not be Gaussian, which matters
if the observation is precise.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from paramfilter import distributions
from paramfilter.errors import ModelError
from paramfilter.inspect.linear_gaussian import LinearModel, observed_linearly
from paramfilter.model import StateSpaceModel
from paramfilter.nodes.inner.assumed_density import AssumedDensity
from paramfilter.nodes.inner.base import Constants, InnerState, nodes_last
from paramfilter.nodes.inner.bending import LEAST
from paramfilter.nodes.inner.forecast import Forecast
from paramfilter.nodes.inner.linear import forecast
from paramfilter.numerics.kalman import absorb
from paramfilter.types import Inputs, Observation, Theta


@dataclass(frozen=True, eq=False)
class Guided(AssumedDensity):
    """A mean and a lower triangular scale at each node, for Gaussian moves and a linear Gaussian observation."""

    linear: LinearModel

    @classmethod
    def bind(cls, model: StateSpaceModel, points_per_axis: int | None = None) -> Guided:
        """Fit a model, or raise `ModelError` if its moves are not Gaussian, or its observation not linear."""
        plain = AssumedDensity.bind(model, points_per_axis)
        linear = observed_linearly(model)
        if linear is None:
            raise ModelError("Guided needs Gaussian moves that are observed linearly; use AssumedDensity instead.")
        return cls(model, plain.to_state, plain.points, plain.point_weights, linear)

    def forecast(self, constants: Constants, x: InnerState, y: Observation, inputs: Inputs) -> Forecast:
        means, variances = self._moved(constants["theta"], x, inputs)
        look = jax.tree.map(lambda leaf: leaf[..., None, :], self._look(constants, inputs))
        return forecast(means, variances, look, distributions.ravel(y)).averaged(self._weights(x))

    def _look(self, constants: Constants, inputs: Inputs) -> dict[str, Array]:
        """Return H, d and R at each node."""
        if constants["look"] is not None:
            return constants["look"]
        return nodes_last(lambda one: self.linear.look(one, inputs))(constants["theta"])

    def prepare(self, theta: Theta) -> Constants:
        look = (
            None
            if self.model.example_inputs is not None
            else nodes_last(lambda one: self.linear.look(one, None))(theta)
        )
        return {"theta": theta, "look": look}

    def step(
        self, constants: Constants, x: InnerState, y: Observation, inputs: Inputs
    ) -> tuple[InnerState, Float[Array, " node"]]:
        means, variances = self._moved(constants["theta"], x, inputs)
        spread = jax.tree.map(lambda leaf: leaf[..., None, :], self._look(constants, inputs))
        means, variances, log_densities = absorb(means, variances, spread, distributions.ravel(y))
        log_weights = log_densities + jnp.log(jnp.maximum(self._weights(x), LEAST))
        total = jax.nn.logsumexp(log_weights, axis=0)
        mean, scale, shape = self._matched(jnp.exp(log_weights - total), means, variances)
        return {"mean": mean, "scale": scale, "shape": shape}, total
