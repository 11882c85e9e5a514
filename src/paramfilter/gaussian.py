"""Gaussians: those of weighted points, and the one inside a tree of distributions, if it is one.

Conjugate and mean-expanding beliefs, guided proposals and Kalman filters need the mean and the covariance of a
transition or an observation. They read them off the user's own numpyro distributions: `Normal` (also batched, expanded
or turned into an event), `MultivariateNormal`, and pytrees of these, laid out as one vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy.linalg import block_diag
from jaxtyping import Array, Bool, Float

from paramfilter import distributions
from paramfilter.numerics.small_matrices import cholesky, solve_lower
from paramfilter.tracing import numbers
from paramfilter.types import Numbers


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Gaussian:
    """N(mean, scale scale'), or several with leading axes, of JAX or of NumPy.

    `scale` is a lower triangular matrix, or a vector of standard deviations.
    """

    mean: Float[Numbers, "*law out"]
    scale: Float[Numbers, "*law out"] | Float[Numbers, "*law out out"]

    @property
    def is_diagonal(self) -> bool:
        """Whether the components are known to be independent."""
        return self.scale.ndim == self.mean.ndim

    @property
    def covariance(self) -> Float[Numbers, "out out"]:
        """The covariance matrix."""
        return jnp.diag(self.scale**2) if self.is_diagonal else self.scale @ self.scale.T

    def at(self, e: Float[Numbers, "*point out"]) -> Float[Numbers, "*point out"]:
        """Turn standard normal values into values of this distribution."""
        return self.mean + e @ self.scale.T

    def standard(self, z: Float[Numbers, "point out"]) -> Float[Numbers, "*law point out"]:
        """Turn values of this distribution into standard normal ones."""
        inverse = numbers(self.scale).linalg.inv(self.scale)
        return (z - self.mean[..., None, :]) @ inverse.swapaxes(-1, -2)

    def log_density(self, z: Float[Numbers, "point out"]) -> Float[Numbers, "*law point"]:
        """Return the log density at each point."""
        return log_height(self.scale)[..., None] - 0.5 * numbers(z).sum(self.standard(z) ** 2, axis=-1)

    def observed_only(self, observed: Bool[Array, " out"]) -> Gaussian:
        """Return the marginal of the observed components; the others get unit variance and no covariance.

        The caller zeroes the residuals and design rows of the missing components, so that they teach nothing.
        """
        if self.is_diagonal:
            return Gaussian(self.mean, jnp.where(observed, self.scale, 1.0))
        both = observed[:, None] & observed[None, :]
        covariance = jnp.where(both, self.covariance, jnp.eye(len(self.mean), dtype=self.mean.dtype))
        return Gaussian(self.mean, cholesky(covariance))

    def whiten(self, columns: Float[Array, "out ..."]) -> Float[Array, "out ..."]:
        """Multiply by the inverse of `scale` from the left: residuals become standard normal."""
        if self.is_diagonal:
            return columns / self.scale.reshape(-1, *[1] * (columns.ndim - 1))
        return solve_lower(self.scale, columns)

    def log_normaliser(self, observed: Bool[Array, " out"]) -> Float[Array, ""]:
        """Return log of the density's constant over the observed components."""
        deviations = self.scale if self.is_diagonal else jnp.diagonal(self.scale)
        return -jnp.sum(jnp.where(observed, jnp.log(deviations) + 0.5 * jnp.log(2 * jnp.pi), 0.0))


def log_height(scale: Float[Numbers, "*law out out"]) -> Float[Numbers, "*law"]:
    """Return the log density of a Gaussian at its mean."""
    xp = numbers(scale)
    log_volume = xp.sum(xp.log(xp.diagonal(scale, axis1=-2, axis2=-1)), axis=-1)
    return -log_volume - 0.5 * scale.shape[-1] * math.log(2 * math.pi)


def gaussian_around(
    z: Float[Numbers, "point out"], weights: Float[Numbers, " point"], ridge: Callable[[Numbers], Numbers | float]
) -> Gaussian:
    """Return the Gaussian with the mean and the covariance of weighted points.

    Args:
        z: The points.
        weights: They sum to one.
        ridge: From the variances to what is added to them, so that a direction in which all points agree stays open.
    """
    xp = numbers(z, weights)
    mean = weights @ z
    covariance = (weights[:, None] * (z - mean)).T @ (z - mean)
    added = ridge(xp.diagonal(covariance)) * xp.eye(len(mean), dtype=z.dtype)
    return Gaussian(mean, xp.linalg.cholesky(covariance + added))


def gaussian_of(tree: distributions.DistributionTree) -> Gaussian | None:
    """Return the joint Gaussian of a tree of distributions, or None if some leaf is not Gaussian."""
    leaves = jax.tree.leaves(tree, is_leaf=distributions.is_distribution)
    found = [_leaf_gaussian(leaf) for leaf in leaves]
    parts = [part for part in found if part is not None]
    if len(parts) < len(found):
        return None
    mean = jnp.concatenate([part.mean for part in parts])
    if all(part.is_diagonal for part in parts):
        return Gaussian(mean, jnp.concatenate([part.scale for part in parts]))
    scales = [jnp.diag(part.scale) if part.is_diagonal else part.scale for part in parts]
    return Gaussian(mean, block_diag(*scales))


def known_gaussian(tree: distributions.DistributionTree) -> Gaussian:
    """Return the joint Gaussian of a tree that was found to be one when a part was bound to its model."""
    found = gaussian_of(tree)
    assert found is not None
    return found


def _leaf_gaussian(leaf: Any) -> Gaussian | None:
    inner = distributions.components(leaf)
    family: Any = inner.base_dist if isinstance(inner, dist.ExpandedDistribution) else inner
    if type(family) is dist.Normal:
        mean, scale = (jnp.broadcast_to(jnp.asarray(part), inner.shape()) for part in (family.loc, family.scale))
        return Gaussian(mean.reshape(-1), scale.reshape(-1))
    if type(inner) is dist.MultivariateNormal and inner.batch_shape == ():
        return Gaussian(jnp.asarray(inner.loc), jnp.asarray(inner.scale_tril))
    return None
