"""What a surface is asked for: the log likelihood at any theta near the nodes, from its values at them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from jaxtyping import Bool, Float

from paramfilter.gaussian import Gaussian
from paramfilter.tracing import numbers
from paramfilter.types import Numbers

DEEPEST = 40.0
"""Nats below the top from where on nodes do not count: no surface reaches those that came from the prior."""
REACH = 3.0
"""Posterior sds that are one unit of a polynomial's variables."""
WIDE = 1.5
"""Posterior sds of the Gaussian that takes the prior's place where only a surface is known."""
HIGHEST = 1.0
"""Nats above the best node that a surface may promise, besides three times its misfit."""


@dataclass(frozen=True)
class Surface(ABC):
    """The log likelihood between nodes.

    Attributes:
        around: The posterior's mean and scale, which standardise theta.
        top: The log likelihood of the best node, which the surface is added to.
        best: The log posterior of the best node.
        misfit: Leave-one-out error in nats, rms over the posterior; infinite if there are too few nodes to tell.
        left_out: Leave-one-out error at each node.
    """

    around: Gaussian
    top: Float[Numbers, ""]
    best: Float[Numbers, ""]
    misfit: Float[Numbers, ""]
    left_out: Float[Numbers, " node"]

    @abstractmethod
    def at(self, z: Float[Numbers, "point param"]) -> tuple[Float[Numbers, " point"], Bool[Numbers, " point"]]:
        """Return the log likelihood, and where it can be trusted."""

    @abstractmethod
    def shares(
        self, z: Float[Numbers, "point param"], nodes: Float[Numbers, "node param"], is_core: Bool[Numbers, " node"]
    ) -> Float[Numbers, "point node"]:
        """Return by which factors the numbers at core nodes add up to those at other points."""

    @property
    def wide(self) -> Gaussian:
        """A Gaussian around the posterior that new points may come from, as far as the surface reaches."""
        return Gaussian(self.around.mean, WIDE * self.around.scale)

    @property
    def highest(self) -> Float[Numbers, ""]:
        """The log posterior above which the surface is not believed."""
        return self.best + HIGHEST + 3 * self.misfit

    def squared_error(
        self, z: Float[Numbers, "node param"], weights: Float[Numbers, " node"]
    ) -> Float[Numbers, " param"]:
        """Return by how much the posterior mean may be off, squared, in posterior variances: by left-out errors."""
        xp = numbers(self, z)
        return xp.sum((weights * self.left_out)[:, None] ** 2 * self.around.standard(z) ** 2, axis=0)
