"""The exact proposal for a Gaussian transition that is observed linearly with Gaussian noise.

The state is drawn from p(x | x_prev, y, theta) itself, which one step of a Kalman filter gives, and its weight is
p(y | x_prev, theta). It does not depend on where the particle lands: no proposal can do better. A transition may be
deterministic in some components.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from paramfilter import distributions
from paramfilter.gaussian import Gaussian, known_gaussian
from paramfilter.inspect.linear_gaussian import LinearModel
from paramfilter.model import StateSpaceModel
from paramfilter.numerics.kalman import absorb
from paramfilter.numerics.small_matrices import cholesky
from paramfilter.proposals.base import BoundProposal, Move


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class GaussianPlan:
    """The distribution of the next state given y, and log p(y | x_prev, theta)."""

    x: Gaussian
    log_predictive: Float[Array, ""]


@dataclass(frozen=True, eq=False)
class GaussianProduct(BoundProposal):
    """Draw from p(x | x_prev, y, theta) itself; `linear` reads the observation as matrices."""

    model: StateSpaceModel
    linear: LinearModel

    def plan(self, theta, x_prev, y, inputs):
        moved = known_gaussian(self.model.transition(theta, x_prev, inputs))
        look = self.linear.look(theta, inputs)
        mean, covariance, log_predictive = absorb(moved.mean, moved.covariance, look, distributions.ravel(y))
        return GaussianPlan(Gaussian(mean, cholesky(covariance)), log_predictive)

    def ahead(self, plan):
        return plan.log_predictive

    def propose(self, key, plan, theta, x_prev, y, inputs):
        _, unravel = ravel_pytree(x_prev)
        noise = jax.random.normal(key, plan.x.mean.shape, plan.x.mean.dtype)
        return Move(unravel(plan.x.at(noise)), plan.log_predictive)
