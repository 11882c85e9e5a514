"""What a theta sampler is given and what it promises.

A belief is a log density on R^p, known up to a constant. Exact samplers (`InverseCdf`) need a window that holds its
bulk; Markov chain samplers (`RandomWalk`, `Slice`, `Independence`) need a place to start, the particle's previous
value, and a rough center and scale, which the spread of all particles gives them for nothing. A `Region` carries both.
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
        mean: Center of the particles, or of the belief itself where that is known.
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


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Here:
    """Where a Markov chain is, and the log density there: the next move need not ask for it again."""

    z: Float[Array, " param"]
    log_density: Float[Array, ""]


@dataclass(frozen=True)
class ThetaSampler(abc.ABC):
    """Draws theta for one particle. Exact samplers ignore `previous`; Markov chains start from it."""

    @abc.abstractmethod
    def draw(
        self, key: KeyArray, log_density: LogDensity, previous: Float[Array, " param"], region: Region
    ) -> ThetaDraw:
        """Return a point drawn from the density, or moved by a kernel that leaves the density invariant."""


class MarkovSampler(ThetaSampler):
    """Moves the particle's previous theta by a kernel that leaves the density invariant."""

    def draw(
        self, key: KeyArray, log_density: LogDensity, previous: Float[Array, " param"], region: Region
    ) -> ThetaDraw:
        """Move `previous`; there is no window, and so no edge."""
        moved = self.move(key, log_density, Here(previous, log_density(previous)), region)
        return ThetaDraw(moved.z, at_edge=jnp.zeros((), bool))

    @abc.abstractmethod
    def move(self, key: KeyArray, log_density: LogDensity, here: Here, region: Region) -> Here:
        """Return where the chain goes from here."""


def metropolis(key: KeyArray, here: Here, proposal: Here, log_favour: float | Float[Array, ""] = 0.0) -> Here:
    """Go to the proposal or stay, such that the density is left invariant.

    Args:
        key: Random key.
        here: Where the chain is.
        proposal: Where it might go.
        log_favour: How much likelier the way back would be proposed than the way there, as a logarithm.
    """
    gain = proposal.log_density - here.log_density + log_favour
    wins = jnp.log(jax.random.uniform(key, dtype=here.z.dtype)) < gain
    # A start of density zero accepts any proposal of positive density; NaN never wins.
    wins = jnp.where(jnp.isfinite(here.log_density), wins, proposal.log_density > -jnp.inf)
    return jax.tree.map(lambda new, old: jnp.where(wins, new, old), proposal, here)
