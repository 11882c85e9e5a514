"""Where new nodes come from: a distribution of theta that can be drawn from and whose density is known exactly.

A new set of nodes is a lattice, mapped by a mixture of three distributions:

- most nodes from kernels, N(c_k, S_k) around centers c_k that were chosen from the weighted nodes, with the covariance
  of those near by; or, with many parameters, where kernels leave holes between them, from one Gaussian;
- a share from a wide Gaussian, N(m, 2.5^2 C), in case these miss a flank;
- a share from (nearly) the prior, in case they miss a mode.

m and C are mean and covariance of the weighted nodes. The density of the mixture is part of the weights, so whatever
the shares are, they cost accuracy and not truth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from paramfilter.gaussian import Gaussian, gaussian_around, log_height
from paramfilter.numerics.weights import at_levels
from paramfilter.parameters import Parameters
from paramfilter.tracing import is_traced, numbers
from paramfilter.types import Numbers

WIDE_SHARE, WIDTH = 0.05, 2.5
PRIOR_SHARE = 0.03
KERNEL_WIDTH = 0.7
"""Of kernels, in posterior sds."""
MOST_CENTRES, NODES_PER_CENTRE, FLAT_SHARE = 128, 4, 4
"""Kernels, of which every fourth is where the square root of the likelihood is."""
RIDGE = 1e-6
"""Of a covariance, as a share of its mean variance: a direction in which all weighted nodes agree stays open."""
TINY = 1e-12
"""Weight that a node has, however far it is."""
PRIOR_WIDTH = 1.15
"""Of the Gaussian that stands for the prior, in the prior's own deviations."""
CENTRAL = 0.05, 0.5, 0.95
"""Quantiles of the prior that place the Gaussian: heavy tails leave them alone."""
BETWEEN_CENTRAL = 3.29
"""Standard deviations between the outer two, for a Gaussian."""


def prior_normal(parameters: Parameters) -> Gaussian:
    """Return a Gaussian that is like the prior in the coordinates z."""
    low, center, high = np.quantile(parameters.prior_draws, CENTRAL, axis=0)
    correlation = np.corrcoef(parameters.prior_draws.T).reshape(2 * (parameters.dimension,))
    scale = (PRIOR_WIDTH * (high - low) / BETWEEN_CENTRAL)[:, None] * np.linalg.cholesky(correlation)
    precision = jnp.result_type(float)
    return Gaussian(center.astype(precision), scale.astype(precision))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Prior:
    """The prior of one series.

    Attributes:
        normal: A Gaussian that is like the prior of the model, or that stands in its place.
        replaces: Whether it stands in its place.
    """

    normal: Gaussian
    replaces: Bool[Numbers, ""]

    def log_density(self, parameters: Parameters, z: Float[Numbers, "node param"]) -> Float[Numbers, " node"]:
        """Return the log density; inside a trace."""
        return jnp.where(self.replaces, self.normal.log_density(z), jax.vmap(parameters.log_prior)(z))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Mixture:
    """Kernels, a wide Gaussian and the prior's stand-in; or several mixtures with leading axes.

    Attributes:
        centers: Of the kernels.
        scales: Lower factors of the kernels' covariances.
        around: The Gaussian that is like all weighted nodes; the wide one is `WIDTH` times as wide.
        prior: A Gaussian that is like the prior.
    """

    centers: Float[Numbers, "*law center param"]
    scales: Float[Numbers, "*law center param param"]
    around: Gaussian
    prior: Gaussian

    @classmethod
    def blank(cls, number: int, num_nodes: int, dimension: int, precision: Any) -> Mixture:
        """Return as many mixtures to be filled."""
        unit = np.eye(dimension, dtype=precision)
        normal = Gaussian(np.zeros((number, dimension), precision), np.broadcast_to(unit, (number, *unit.shape)))
        size = (number, num_centres(num_nodes))
        return cls(np.zeros((*size, dimension), precision), np.broadcast_to(unit, (*size, *unit.shape)), normal, normal)

    def at(self, e: Float[Numbers, "node param"], choice: Float[Numbers, "node 2"]) -> Float[Numbers, "node param"]:
        """Map standard normal values; uniform ones choose the distribution and the center."""
        xp = numbers(self, e)
        chosen = xp.floor(choice[:, 1] * len(self.centers)).astype(int)
        z = self.centers[chosen] + (self.scales[chosen] @ e[:, :, None])[:, :, 0]
        z = xp.where(choice[:, :1] < WIDE_SHARE, self.around.at(WIDTH * e), z)
        return xp.where(choice[:, :1] >= 1 - PRIOR_SHARE, self.prior.at(e), z)

    def log_density(self, z: Float[Numbers, "node param"]) -> Float[Numbers, "*law node"]:
        """Return the log density of the mixture."""
        wide = Gaussian(self.around.mean, WIDTH * self.around.scale)
        parts = (
            self._log_kernels(z) + math.log(1 - WIDE_SHARE - PRIOR_SHARE),
            wide.log_density(z) + math.log(WIDE_SHARE),
            self.prior.log_density(z) + math.log(PRIOR_SHARE),
        )
        return log_sum(numbers(z, self.centers).stack(parts))

    def _log_kernels(self, z: Float[Numbers, "node param"]) -> Float[Numbers, "*law node"]:
        """Return the log of the kernels' mean density."""
        xp = numbers(self.scales, z)
        *several, size, dimension = self.centers.shape
        inverses = xp.linalg.inv(self.scales)
        precisions = xp.swapaxes(inverses, -1, -2) @ inverses
        # (z - c)' P (z - c) as one product of matrices: of the powers of z, and of what is before them.
        middle = self.around.mean[..., None, :]
        points, centers = z - middle, (self.centers - middle)[..., None]
        slopes = (precisions @ centers)[..., 0]
        constants = xp.sum(slopes * centers[..., 0], axis=-1)[..., None, :]
        curved = _squares(points) @ precisions.reshape(*several, size, dimension**2).swapaxes(-1, -2)
        squares = curved - 2 * points @ slopes.swapaxes(-1, -2) + constants
        log_heights = log_height(self.scales)[..., None, :] - math.log(size)
        return log_sum(xp.moveaxis(log_heights - 0.5 * squares, -1, 0))


def _squares(points: Float[Numbers, "*law node param"]) -> Float[Numbers, "*law node square"]:
    """Return all products of two coordinates."""
    return (points[..., :, None] * points[..., None, :]).reshape(*points.shape[:-1], points.shape[-1] ** 2)


def mixture_of(
    z: Float[Numbers, "node param"],
    log_weights: Float[Numbers, " node"],
    log_flat: Float[Numbers, " node"],
    width: Float[Numbers, ""],
    prior: Gaussian,
    num_nodes: int,
    is_single: Bool[Numbers, ""] | bool,
) -> Mixture:
    """Return the mixture around weighted nodes.

    Args:
        z: The nodes.
        log_weights: Unnormalised.
        log_flat: The same with the square root of the likelihood: some centers are chosen by these, so that nodes stay
            where little weight is now, and where later observations may put more.
        width: Of the kernels, in posterior sds.
        prior: A Gaussian that is like the prior.
        num_nodes: Of the filter, which decides how many kernels there are.
        is_single: Whether one Gaussian stands for the kernels.
    """
    xp = numbers(z, log_weights)
    weights, flat = shares_of(log_weights), shares_of(log_flat)
    if xp is np:
        is_seen = weights + flat > TINY  # the others cost time, and do nothing
        z, weights, flat = z[is_seen], weights[is_seen], flat[is_seen]
    around = normal_of(z, weights)
    size = num_centres(num_nodes)
    if not is_traced(is_single) and is_single:
        centers, scales = _alone(around, width, size)
        return Mixture(centers, scales, around, prior)
    # Sorted along the longest axis, so that neighbours in the last coordinate of the cube are neighbours in space.
    order = xp.argsort(z @ xp.linalg.eigh(around.scale @ around.scale.T)[1][:, -1])
    even = lambda number: (xp.arange(number, dtype=z.dtype) + 0.5) / number
    num_flat = size // FLAT_SHARE
    mixed = [at_levels(weights[order], even(size - num_flat)), at_levels(flat[order], even(num_flat))]
    centers = z[order][xp.sort(xp.concatenate(mixed))]
    scales = _local_scales(z, flat, centers, around, width)
    if is_traced(is_single):
        mean, scale = _alone(around, width, size)
        centers, scales = xp.where(is_single, mean, centers), xp.where(is_single, scale, scales)
    return Mixture(centers, scales, around, prior)


def _alone(around: Gaussian, width: Any, size: int) -> tuple[Any, Any]:
    """Return centers and scales of one Gaussian, as so many kernels in the same place."""
    xp, scale = numbers(around, width), width * around.scale
    return xp.broadcast_to(around.mean, (size, *around.mean.shape)), xp.broadcast_to(scale, (size, *scale.shape))


def _local_scales(z: Any, weights: Any, centers: Any, around: Gaussian, width: Any) -> Float[Numbers, "center p p"]:
    """Return factors of the kernels' covariances: those of the weighted nodes that are near the centers.

    What is near is told by a Gaussian window, as wide as makes the covariance of a Gaussian posterior `width`^2 times
    its own when seen through it. If the posterior is bent, kernels lie along the bend.
    """
    xp = numbers(z, weights)
    points, middles = around.standard(z), around.standard(centers)  # here the nodes' covariance is the unit matrix
    dimension = z.shape[1]
    lengths = xp.sum(middles**2, axis=1)[:, None] + xp.sum(points**2, axis=1) - 2 * middles @ points.T
    near = weights * xp.exp(-0.5 * lengths * (1 - width**2) / width**2)
    near = near + TINY * weights
    num_near = xp.sum(near, axis=1) ** 2 / xp.sum(near**2, axis=1)
    near = near / xp.sum(near, axis=1, keepdims=True)
    means = near @ points
    covariances = (near @ _squares(points)).reshape(-1, dimension, dimension) - means[:, :, None] * means[:, None]
    # Where there are few, they know little of their own spread.
    ratio = (num_near / (dimension + 1))[:, None, None]
    doubt = xp.exp(-ratio)
    covariances = covariances * (1 + 1 / ratio) * (1 - doubt) + doubt * width**2 * xp.eye(dimension, dtype=z.dtype)
    return around.scale @ xp.linalg.cholesky(covariances)


def num_centres(num_nodes: int) -> int:
    """Return how many kernels there are."""
    return min(MOST_CENTRES, num_nodes // NODES_PER_CENTRE)


def normal_of(z: Float[Numbers, "node param"], weights: Float[Numbers, " node"]) -> Gaussian:
    """Return the Gaussian with the mean and the covariance of weighted nodes."""
    return gaussian_around(z, weights, lambda variances: RIDGE * (variances.sum() / len(variances) + RIDGE))


def shares_of(log_weights: Float[Numbers, "*more node"]) -> Float[Numbers, "*more node"]:
    """Return weights that sum to one over the last axis."""
    xp = numbers(log_weights)
    weights = xp.exp(log_weights - xp.max(log_weights, axis=-1, keepdims=True))
    return weights / xp.sum(weights, axis=-1, keepdims=True)


def log_sum(values: Float[Numbers, "part *node"]) -> Float[Numbers, "*node"]:
    """Return log(sum(exp(values))) over the first axis."""
    xp = numbers(values)
    largest = xp.max(values, axis=0)
    return largest + xp.log(xp.sum(xp.exp(values - largest), axis=0))
