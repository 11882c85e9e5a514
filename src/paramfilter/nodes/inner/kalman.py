"""The Kalman filter: exact for a model that is linear and Gaussian given theta, also if some components have no noise.

    x_t = A x_{t-1} + b + N(0, Q),    y_t = H x_t + d + N(0, R),    x_0 ~ N(m_0, P_0)

A..R are read off the user's own distributions (see `paramfilter.kalman`), once for each node if the model has no inputs
and at each step if it has.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy.stats import norm
from jaxtyping import Array, Float

from paramfilter import distributions
from paramfilter.kalman import LinearModel
from paramfilter.model import StateSpaceModel
from paramfilter.nodes.inner.base import Constants, InnerFilter, InnerState, nodes_last
from paramfilter.nodes.inner.forecast import Bounds
from paramfilter.nodes.inner.linear import absorb, look_of
from paramfilter.nodes.inner.matrices import apply, dot, product, product_transposed
from paramfilter.probe import probe
from paramfilter.types import Inputs, KeyArray, Observation, State, Theta

ASKER, OTHERWISE = "the Kalman filter", "pass inner=None, and the filter that suits the model is chosen."
NUM_TRIED = 3
"""Typical inputs at which a model is tried."""


@dataclass(frozen=True, eq=False)
class Kalman(InnerFilter):
    """A mean and a covariance at each node."""

    linear: LinearModel

    @classmethod
    def bind(cls, model: StateSpaceModel) -> Kalman:
        """Fit a model, or raise `ModelError` saying where it bends."""
        shapes = probe(model)
        vector, to_state = ravel_pytree(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), shapes.x))
        linear = LinearModel(model, vector.size, to_state, ASKER, OTHERWISE)
        with jax.enable_x64(True):
            inputs = [model.inputs_at(np.array(time)) for time in range(NUM_TRIED)]
            linear.refuse_nonlinear(model.example_inputs, inputs[: 1 if model.example_inputs is None else NUM_TRIED])
        return cls(model, linear)

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

    def forecast(self, constants: Constants, x: InnerState, y: Observation, inputs: Inputs) -> Bounds:
        at, mean, covariance = self._predicted(constants, x, inputs)
        noise = at["R"] ** 2 if at["R"].ndim == 2 else jnp.stack([at["R"][i, i] for i in range(len(at["R"]))])
        variance = jnp.stack([dot(row, apply(covariance, row)) for row in at["H"]]) + noise
        below = norm.cdf(distributions.ravel(y)[:, None], apply(at["H"], mean) + at["d"], jnp.sqrt(variance))
        return below, below

    def moments(self, x: InnerState) -> tuple[State, State]:
        to_states = jax.vmap(self.linear.to_state, in_axes=-1)
        return to_states(x["mean"]), to_states(jnp.diagonal(x["covariance"]).T)

    def sample(self, key: KeyArray, x: InnerState) -> State:
        drawn = jax.random.multivariate_normal(key, x["mean"], x["covariance"], method="svd")
        return self.linear.to_state(drawn)
