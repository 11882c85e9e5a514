"""A proposal for states observed with Gaussian noise: half of the particles move by the transition, half are put where
the observation is.

It serves to tell what of a filter's error is the bootstrap proposal's. Both kinds are drawn from the mixture

    g(x) = 1/2 p(x | x_prev, theta) + 1/2 N(x; y, sd^2),

and weighed by p(x | x_prev, theta) p(y | x) / g(x), so the filter stays right.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

from paramfilter.model import StateSpaceModel
from paramfilter.proposals import BoundProposal, Move, Proposal


@dataclass(frozen=True)
class NearObservation(Proposal):
    """Half transition, half a Gaussian around the observation.

    Args:
        sd: Of that Gaussian.
    """

    sd: float = 10.0

    def bind(self, model: StateSpaceModel) -> BoundProposal:
        return _BoundNearObservation(model, self.sd)


@dataclass(frozen=True, eq=False)
class _BoundNearObservation(BoundProposal):
    model: StateSpaceModel
    sd: float

    def propose(self, key, plan, theta, x_prev, y, inputs):
        key_choose, key_move, key_near = jax.random.split(key, 3)
        moved = strongly_typed(self.model.sample_transition(key_move, theta, x_prev, inputs))
        near = dist.Normal(y, self.sd)
        x = jnp.where(jax.random.bernoulli(key_choose), moved, near.sample(key_near))
        log_transition = self.model.transition_log_prob(theta, x_prev, x, inputs)
        log_proposal = jnp.logaddexp(log_transition, near.log_prob(x)) - jnp.log(2.0)
        return Move(x, log_transition + self.model.observation_log_prob(theta, x, y, inputs) - log_proposal)
