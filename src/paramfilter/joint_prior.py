"""A prior under which parameters are correlated: one Gaussian in the unconstrained coordinates.

As a mapping it holds the marginal of each name, as a plain prior does; `Parameters` takes densities and draws from the
whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float

from paramfilter.types import KeyArray


class JointPrior(Mapping[str, Any]):
    """A Gaussian over z.

    Args:
        marginals: The distribution of each named parameter, on its natural scale.
        mean: Of z, in the order of the names.
        covariance: Of z.
    """

    def __init__(self, marginals: Mapping[str, Any], mean: np.ndarray, covariance: np.ndarray):
        self.marginals = dict(marginals)
        self.mean = np.asarray(mean, np.float64)
        self.covariance = np.asarray(covariance, np.float64)
        self.factor = np.linalg.cholesky(self.covariance)

    def __getitem__(self, name: str) -> Any:
        return self.marginals[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.marginals)

    def __len__(self) -> int:
        return len(self.marginals)

    def log_density(self, z: Float[Array, " param"]) -> Float[Array, ""]:
        """Return the log density at z."""
        mean, factor = (jnp.asarray(part, z.dtype) for part in (self.mean, self.factor))
        return dist.MultivariateNormal(mean, scale_tril=factor).log_prob(z)

    def sample(self, key: KeyArray) -> Float[Array, " param"]:
        """Draw z."""
        mean, factor = (jnp.asarray(part, float) for part in (self.mean, self.factor))
        return mean + factor @ jax.random.normal(key, mean.shape, mean.dtype)


def marginal(bijector: Any, shape: tuple[int, ...], mean: np.ndarray, covariance: np.ndarray) -> Any:
    """Return the distribution of one named parameter whose coordinates are Gaussian."""
    if shape == () and mean.shape == (1,):
        inner = dist.Normal(mean[0], np.sqrt(covariance[0, 0]))
    elif bijector.inverse_shape(shape) == mean.shape:
        inner = dist.MultivariateNormal(mean, covariance)
    else:  # a matrix: its coordinates side by side
        inner = dist.TransformedDistribution(
            dist.MultivariateNormal(mean, covariance),
            dist.transforms.ReshapeTransform(bijector.inverse_shape(shape), mean.shape),
        )
    return inner if _is_identity(bijector) else dist.TransformedDistribution(inner, bijector)


def _is_identity(bijector: Any) -> bool:
    while isinstance(bijector, dist.transforms.IndependentTransform):
        bijector = bijector.base_transform
    return isinstance(bijector, dist.transforms.IdentityTransform)
