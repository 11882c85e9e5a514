"""What a particle filter is made of, each part fitted to the model: what the functions of a step take."""

from __future__ import annotations

from dataclasses import dataclass

import jax
from jaxtyping import Array, Float, Int, Key, PyTree

from paramfilter.filters import OutlierGate
from paramfilter.model import StateSpaceModel
from paramfilter.particles.belief import BoundBelief, Shared, Statistic
from paramfilter.particles.state import ParticleState
from paramfilter.proposals import BoundProposal
from paramfilter.resampling import Resampled, Resampling
from paramfilter.types import KeyArray


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of a filter; `num_ancestors` is 0 where beliefs follow the particles' own paths."""

    model: StateSpaceModel
    num_particles: int
    belief: BoundBelief
    proposal: BoundProposal
    resampling: Resampling
    num_ancestors: int
    outliers: OutlierGate | None
    memory: float | None


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class StepKeys:
    """The random keys of one step, by purpose; `theta` and `move` have one for each particle.

    They come from one call, because each call adds a hundred instructions to the program.
    """

    resample: KeyArray
    mix: KeyArray
    forecast: KeyArray
    theta: Key[Array, " particle"]
    move: Key[Array, " particle"]

    @classmethod
    def at(cls, state: ParticleState) -> StepKeys:
        """Derive the keys of a step from the filter's key and the time."""
        size = len(state.log_weights)
        keys = jax.random.split(jax.random.fold_in(state.key, state.time), 3 + 2 * size)
        return cls(keys[0], keys[1], keys[2], keys[3 : 3 + size], keys[3 + size :])


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Particles:
    """State, the theta that moved it last, what is remembered, and weight."""

    x: PyTree
    z: Float[Array, "particle param"]
    statistics: Statistic
    log_weights: Float[Array, " particle"]

    @classmethod
    def of(cls, state: ParticleState) -> Particles:
        """Return the particles of a state."""
        return cls(state.x, state.z, state.statistics, state.log_weights)

    def copied(self, resampled: Resampled, log_weights: Float[Array, " particle"]) -> Particles:
        """Return the chosen particles with new weights."""
        x, z, statistics = jax.tree.map(lambda leaf: leaf[resampled.ancestors], (self.x, self.z, self.statistics))
        return Particles(x, z, statistics, log_weights)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Draws:
    """What each particle has drawn: theta, its flags, and the plan of its move."""

    z: Float[Array, "particle param"]
    outcome: Int[Array, " particle"]
    plan: PyTree


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Parents:
    """Particles that are about to move, and where they come from.

    Attributes:
        shared: What the beliefs share.
        particles: After resampling.
        draws: Their thetas.
        pool: Particles that any child may have come from: the same, or those before they were resampled.
        ancestors: Whose copy in the pool each particle is.
        resampled: What the resampling did.
    """

    shared: Shared
    particles: Particles
    draws: Draws
    pool: Particles
    ancestors: Int[Array, " particle"]
    resampled: Resampled
