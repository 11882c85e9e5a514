"""Where new nodes come from: a law on the space of theta that can be drawn from and whose density is known exactly.

A new set of nodes is a lattice, mapped by a mixture of three laws:

- most nodes from kernels, N(c_k, h^2 C) around centres c_k that were chosen from the weighted nodes; with many
  parameters, where kernels leave holes between them, from one Gaussian around their mean;
- a share from a wide Gaussian, N(m, 2.5^2 C), in case these miss a flank;
- a share from (nearly) the prior, in case they miss a mode.

m and C are mean and covariance of the weighted nodes. The density of the mixture is part of the weights, so whatever
the shares are, they cost accuracy and not truth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from paramfilter.parameters import Parameters
from paramfilter.tracing import numbers
from paramfilter.types import Numbers
from paramfilter.weights import at_levels

WIDE_SHARE, WIDTH = 0.05, 2.5
PRIOR_SHARE = 0.03
NUM_CENTRES = 128
MANY_PARAMETERS = 5
"""From which on there is one centre, the mean: at ten parameters 2048 kernels overlap so little that no node is near
another, and the weights are noise."""
RIDGE = 1e-6
"""Of a covariance, as a share of its mean variance: a direction in which all weighted nodes agree stays open."""
PRIOR_WIDTH = 1.15
"""Of the Gaussian that stands for the prior, in the prior's own deviations."""
CENTRAL = 0.05, 0.5, 0.95
"""Quantiles of the prior that place the Gaussian: heavy tails leave them alone."""
BETWEEN_CENTRAL = 3.29
"""Standard deviations between the outer two, for a Gaussian."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Normal:
    """N(mean, scale scale')."""

    mean: Float[Numbers, " param"]
    scale: Float[Numbers, "param param"]

    def at(self, e: Float[Numbers, "node param"]) -> Float[Numbers, "node param"]:
        """Turn standard normal values into values of this law."""
        return self.mean + e @ self.scale.T

    def standard(self, z: Float[Numbers, "node param"]) -> Float[Numbers, "node param"]:
        """Turn values of this law into standard normal ones."""
        return (z - self.mean) @ numbers(self, z).linalg.inv(self.scale).T

    def log_density(self, z: Float[Numbers, "node param"]) -> Float[Numbers, " node"]:
        """Return the log density."""
        return self.log_constant - 0.5 * numbers(self, z).sum(self.standard(z) ** 2, axis=1)

    @property
    def log_constant(self) -> Float[Numbers, ""]:
        """The log density at the mean."""
        xp = numbers(self)
        return -xp.sum(xp.log(xp.diagonal(self.scale))) - 0.5 * len(self.scale) * math.log(2 * math.pi)


def prior_normal(parameters: Parameters) -> Normal:
    """Return a Gaussian that is like the prior in the coordinates z."""
    low, centre, high = np.quantile(parameters.prior_draws, CENTRAL, axis=0)
    correlation = np.corrcoef(parameters.prior_draws.T).reshape(2 * (parameters.dimension,))
    scale = (PRIOR_WIDTH * (high - low) / BETWEEN_CENTRAL)[:, None] * np.linalg.cholesky(correlation)
    precision = jnp.result_type(float)
    return Normal(centre.astype(precision), scale.astype(precision))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Mixture:
    """Kernels, a wide Gaussian and the prior's stand-in."""

    centres: Float[Numbers, "centre param"]
    around: Normal
    width: Float[Numbers, ""]
    prior: Normal

    def at(self, e: Float[Numbers, "node param"], choice: Float[Numbers, "node 2"]) -> Float[Numbers, "node param"]:
        """Map standard normal values; uniform ones choose the law and the centre."""
        xp = numbers(self, e)
        centres = self.centres[xp.floor(choice[:, 1] * len(self.centres)).astype(int)]
        z = centres + self.width * (e @ self.around.scale.T)
        z = xp.where(choice[:, :1] < WIDE_SHARE, self.around.at(WIDTH * e), z)
        return xp.where(choice[:, :1] >= 1 - PRIOR_SHARE, self.prior.at(e), z)

    def log_density(self, z: Float[Numbers, "node param"]) -> Float[Numbers, " node"]:
        """Return the log density of the mixture."""
        xp = numbers(self, z)
        points, centres = self.around.standard(z), self.around.standard(self.centres)
        lengths = xp.sum(points**2, axis=1)
        squares = lengths[:, None] + xp.sum(centres**2, axis=1) - 2 * points @ centres.T
        kernels = -0.5 * squares / self.width**2 - xp.log(len(centres) * self.width ** z.shape[1])
        parts = (
            log_sum(kernels.T) + math.log(1 - WIDE_SHARE - PRIOR_SHARE),
            -0.5 * lengths / WIDTH**2 - z.shape[1] * math.log(WIDTH) + math.log(WIDE_SHARE),
            self.prior.log_density(z) - self.around.log_constant + math.log(PRIOR_SHARE),
        )
        return log_sum(xp.stack(parts)) + self.around.log_constant


def mixture_of(
    z: Float[Numbers, "node param"], log_weights: Float[Numbers, " node"], width: Float[Numbers, ""], prior: Normal
) -> Mixture:
    """Return the mixture around weighted nodes."""
    xp = numbers(z, log_weights)
    weights = shares_of(log_weights)
    around = normal_of(z, weights)
    # Sorted along the longest axis, so that neighbours in the last coordinate of the cube are neighbours in space.
    order = xp.argsort(z @ xp.linalg.eigh(around.scale @ around.scale.T)[1][:, -1])
    chosen = at_levels(weights[order], (xp.arange(NUM_CENTRES, dtype=z.dtype) + 0.5) / NUM_CENTRES)
    centres = z[order][chosen] if z.shape[1] < MANY_PARAMETERS else around.mean[None]
    return Mixture(centres, around, width, prior)


def normal_of(z: Float[Numbers, "node param"], weights: Float[Numbers, " node"]) -> Normal:
    """Return the Gaussian with the mean and the covariance of weighted nodes."""
    xp = numbers(z, weights)
    mean = weights @ z
    covariance = (weights[:, None] * (z - mean)).T @ (z - mean)
    ridge = RIDGE * (xp.trace(covariance) / len(mean) + RIDGE)
    return Normal(mean, xp.linalg.cholesky(covariance + ridge * xp.eye(len(mean), dtype=z.dtype)))


def shares_of(log_weights: Float[Numbers, " node"]) -> Float[Numbers, " node"]:
    """Return weights that sum to one."""
    xp = numbers(log_weights)
    weights = xp.exp(log_weights - xp.max(log_weights))
    return weights / xp.sum(weights)


def log_sum(values: Float[Numbers, "part node"]) -> Float[Numbers, " node"]:
    """Return log(sum(exp(values))) over the first axis."""
    xp = numbers(values)
    largest = xp.max(values, axis=0)
    return largest + xp.log(xp.sum(xp.exp(values - largest), axis=0))
