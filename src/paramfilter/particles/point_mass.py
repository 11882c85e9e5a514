"""One value of theta per particle, drawn from the prior and never moved: the plain particle filter on (x, theta).

It is here as the yardstick. Resampling can only remove values, so after a few hundred observations a single one is left
and the filter is sure of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from paramfilter.errors import BeliefError
from paramfilter.filters import Moments
from paramfilter.model import StateSpaceModel
from paramfilter.particles.belief import Belief, BoundBelief, Draw, Statistic


@dataclass(frozen=True)
class PointMass(Belief):
    """The particle is sure of one theta."""

    def bind(self, model: StateSpaceModel) -> BoundBelief:
        """Fit any model."""
        return BoundPointMass(model)


@dataclass(frozen=True, eq=False)
class BoundPointMass(BoundBelief):
    """One value for each particle, which is all there is to remember."""

    model: StateSpaceModel
    name: str = "PointMass"
    has_density: ClassVar[bool] = False

    def init(self) -> Statistic:
        return None

    def update(self, shared, statistic, datum) -> Statistic:
        return None

    def sample(self, key, shared, statistic, previous):
        return Draw.without_trouble(previous)

    def moments(self, shared, statistic, z):
        theta = self.model.parameters.constrain(z)
        return Moments(theta, jax.tree.map(jnp.zeros_like, theta))

    def log_prob(self, shared, statistic, z):
        raise BeliefError(f"a {self.name} belief has no density of its own; posterior.log_prob smooths those of all.")
