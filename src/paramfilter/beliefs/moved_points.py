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
from jaxtyping import Array, Float

from paramfilter.beliefs.base import Belief, BoundBelief, Draw, no_outcome
from paramfilter.beliefs.mean_cholesky import MIN_SPREAD, MeanCholesky, spread_of
from paramfilter.beliefs.point_mass import BoundPointMass
from paramfilter.errors import BeliefError
from paramfilter.model import StateSpaceModel

USUAL_DISCOUNT = 0.98
"""Liu and West recommend 0.95 to 0.99."""


@dataclass(frozen=True)
class ShrinkingKernel(Belief):
    """Liu and West's kernel: z becomes a z + (1 - a) mean + h L noise, where L L^T is the covariance of all values.

    Args:
        discount: Delta, between 1/3 and 1; a = (3 delta - 1) / (2 delta) and h^2 = 1 - a^2. Liu and West recommend 0.95
            to 0.99. The EPF paper writes rho for a.
        num_islands: Islands of the filter, each of which gets a mean and covariance of its own. With a common kernel
            islands are pulled together, and R-hat stays near 1 even where each of them is wrong.
    """

    discount: float = USUAL_DISCOUNT
    num_islands: int = 1

    def __post_init__(self):
        if not 1 / 3 < self.discount < 1:
            raise BeliefError(f"discount must lie between 1/3 and 1, got {self.discount}; 0.98 is usual.")

    def bind(self, model: StateSpaceModel) -> BoundBelief:
        """Fit any model."""
        islands = f", {self.num_islands} islands" if self.num_islands > 1 else ""
        name = f"ShrinkingKernel({self.discount}{islands})"
        return _BoundShrinkingKernel(model, name, (3 * self.discount - 1) / (2 * self.discount), self.num_islands)


def discount_that_keeps(rho: float) -> float:
    """Return the discount at which a value keeps the share `rho` of its distance from the mean."""
    if not 0 < rho < 1:
        raise BeliefError(f"rho must lie between 0 and 1, got {rho}; the EPF paper uses 0.9.")
    return 1 / (3 - 2 * rho)


@dataclass(frozen=True, eq=False)
class _BoundShrinkingKernel(BoundPointMass):
    """A value that keeps a share of its distance from the mean of its island, and gets noise for the rest.

    A particle remembers its island; what particles share is the spread of each.
    """

    keep: float = 1.0
    num_islands: int = 1

    def spread(self, z: Float[Array, "particle param"], log_weights: Float[Array, " particle"]) -> MeanCholesky:
        floor = MIN_SPREAD * self.model.parameters.prior_sd
        by_island = [values.reshape(self.num_islands, -1, *values.shape[1:]) for values in (z, log_weights)]
        return jax.vmap(lambda z, log_weights: spread_of(z, log_weights, floor))(*by_island)

    def init(self):
        return jnp.int32(0)

    def init_shared(self, z):
        if len(z) % self.num_islands:
            raise BeliefError(
                f"{len(z)} particles cannot be shared out among the {self.num_islands} islands of {self.name}."
            )
        return self.spread(z, jnp.zeros(len(z), z.dtype))

    def update(self, shared, statistic, datum):
        return statistic

    def adapt(self, shared, statistics, z, log_weights):
        islands = jnp.arange(len(z), dtype=jnp.int32) // (len(z) // self.num_islands)
        return self.spread(z, log_weights), islands

    def sample(self, key, shared, statistic, previous):
        noise = jax.random.normal(key, previous.shape, previous.dtype)
        own = jax.tree.map(lambda leaf: leaf[statistic], shared)
        center, bandwidth = self.keep * previous + (1 - self.keep) * own.mean, (1 - self.keep**2) ** 0.5
        return Draw(MeanCholesky(center, bandwidth * own.factor).unwhiten(noise), no_outcome())
