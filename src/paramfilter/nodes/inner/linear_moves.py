"""What filters share whose state is Gaussian, given theta, and moves linearly: x_t = A x_{t-1} + b + N(0, Q)."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array

from paramfilter.inspect.linear_gaussian import LinearModel
from paramfilter.nodes.inner.base import InnerFilter, InnerState
from paramfilter.numerics.kalman import predicted
from paramfilter.numerics.small_matrices import cholesky, product_transposed
from paramfilter.types import Inputs, KeyArray, State, Theta


@dataclass(frozen=True, eq=False)
class LinearMoves(InnerFilter):
    """A mean and a covariance at each node.

    Args:
        linear: The moves, read as matrices.
    """

    linear: LinearModel

    def start(self, theta: Theta, inputs: Inputs) -> InnerState:
        law = self.linear.initial(theta, inputs)
        return {"mean": law.mean, "covariance": law.covariance}

    def moved(self, at: dict[str, Array], x: InnerState) -> InnerState:
        """Return mean and covariance of the next state."""
        mean, covariance = predicted(x["mean"], x["covariance"], at)
        return {"mean": mean, "covariance": covariance}

    def loosened(self, x: InnerState) -> InnerState:
        # Of covariances, a sum with a negative factor need not be one. Of their factors, it is the factor of one.
        return x | {"covariance": cholesky(x["covariance"])}

    def tightened(self, x: InnerState) -> InnerState:
        return x | {"covariance": product_transposed(x["covariance"], x["covariance"])}

    def moments(self, x: InnerState) -> tuple[State, State]:
        to_states = jax.vmap(self.linear.to_state, in_axes=-1)
        return to_states(x["mean"]), to_states(jnp.diagonal(x["covariance"]).T)

    def sample(self, key: KeyArray, x: InnerState) -> State:
        drawn = jax.random.multivariate_normal(key, x["mean"], x["covariance"], method="svd")
        return self.linear.to_state(drawn)
