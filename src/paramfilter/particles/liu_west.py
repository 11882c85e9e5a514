"""Liu-West: one value of theta per particle, drawn anew at each step from a kernel around it.

The kernel is pulled towards the mean of all values, so that mean and covariance stay as they are. The shape of the
posterior does not, and what is forgotten that way is never made up for. It is here to be compared with.

J. Liu and M. West, Combined parameter and state estimation in simulation-based filtering, in: Sequential Monte Carlo
methods in practice, 2001.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from paramfilter.errors import BeliefError
from paramfilter.model import StateSpaceModel
from paramfilter.particles.belief import Belief, Draw
from paramfilter.particles.point_mass import BoundPointMass
from paramfilter.particles.spread import spread_of

USUAL_DISCOUNT = 0.98
"""Liu and West recommend 0.95 to 0.99."""


@dataclass(frozen=True)
class ShrinkingKernel(Belief):
    """Liu and West's kernel: z becomes a z + (1 - a) mean + h L noise, where L L^T is the covariance of all values.

    Args:
        discount: Delta, between 1/3 and 1; a = (3 delta - 1) / (2 delta) and h^2 = 1 - a^2. Liu and West recommend 0.95
            to 0.99. The EPF paper writes rho for a.
    """

    discount: float = USUAL_DISCOUNT

    def __post_init__(self):
        if not 1 / 3 < self.discount < 1:
            raise BeliefError(f"discount must lie between 1/3 and 1, got {self.discount}; 0.98 is usual.")

    def bind(self, model: StateSpaceModel) -> BoundShrinkingKernel:
        """Fit any model."""
        keep = (3 * self.discount - 1) / (2 * self.discount)
        return BoundShrinkingKernel(model, f"ShrinkingKernel({self.discount})", keep)


def discount_that_keeps(rho: float) -> float:
    """Return the discount at which a value keeps the share `rho` of its distance from the mean."""
    if not 0 < rho < 1:
        raise BeliefError(f"rho must lie between 0 and 1, got {rho}; the EPF paper uses 0.9.")
    return 1 / (3 - 2 * rho)


@dataclass(frozen=True, eq=False)
class BoundShrinkingKernel(BoundPointMass):
    """A value that keeps a share of its distance from the mean, and gets noise for the rest; particles share their
    spread."""

    keep: float = 1.0

    def init_shared(self, z):
        return spread_of(z, jnp.zeros(len(z), z.dtype), self.model.parameters.prior_sd)

    def adapt(self, shared, statistics, z, log_weights):
        return spread_of(z, log_weights, self.model.parameters.prior_sd), statistics

    def sample(self, key, shared, statistic, previous):
        noise = jax.random.normal(key, previous.shape, previous.dtype)
        center, bandwidth = self.keep * previous + (1 - self.keep) * shared.mean, (1 - self.keep**2) ** 0.5
        return Draw.without_trouble(center + bandwidth * shared.scale @ noise)
