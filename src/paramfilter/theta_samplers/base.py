"""What a theta sampler is given and what it promises.

A belief is a log density on R^p, known up to a constant. Exact samplers (`InverseCdf`) need a window that holds its
bulk; Markov chain samplers (`RandomWalk`, `Slice`, `Independence`) need a place to start, the particle's previous
value, and a rough centre and scale, which the spread of all particles gives them for nothing. A `Region` carries both.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from paramfilter.types import KeyArray

LogDensity = Callable[[Float[Array, " param"]], Float[Array, ""]]
"""An unnormalised log density of one point."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Region:
    """Where theta is to be looked for.

    Attributes:
        low: Lower corner of a window around the prior.
        high: Its upper corner.
        mean: Centre of the particles, or of the belief itself where that is known.
        spread: A factor F of their covariance F F^T.
        whitener: Its inverse.
    """

    low: Float[Array, " param"]
    high: Float[Array, " param"]
    mean: Float[Array, " param"]
    spread: Float[Array, "param param"]
    whitener: Float[Array, "param param"]

    @classmethod
    def around(
        cls,
        low: Float[Array, " param"],
        high: Float[Array, " param"],
        mean: Float[Array, " param"],
        factor: Float[Array, "param param"],
    ) -> Region:
        """Make a region from a lower Cholesky factor."""
        identity = jnp.eye(len(mean), dtype=factor.dtype)
        return cls(low, high, mean, factor, jax.scipy.linalg.solve_triangular(factor, identity, lower=True))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ThetaDraw:
    """A drawn point; `at_edge` tells that the window cut off mass that matters."""

    z: Float[Array, " param"]
    at_edge: Bool[Array, ""]


@dataclass(frozen=True)
class ThetaSampler(abc.ABC):
    """Draws theta for one particle. Exact samplers ignore `previous`; Markov chains start from it."""

    @abc.abstractmethod
    def draw(
        self, key: KeyArray, log_density: LogDensity, previous: Float[Array, " param"], region: Region
    ) -> ThetaDraw:
        """Return a point drawn from the density, or moved by a kernel that leaves the density invariant."""
