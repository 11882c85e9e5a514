"""The bootstrap proposal (Gordon, Salmond and Smith 1993): move by the transition, weigh by the observation.

It needs nothing but the model, and it is blind to y: with precise observations most particles miss (on the paper's
SIN model with sigma_obs = 0.1 the effective sample size is a tenth of N).
"""

from __future__ import annotations

from dataclasses import dataclass

from paramfilter.model import StateSpaceModel
from paramfilter.proposals.base import BoundProposal, Move, Proposal
from paramfilter.tracing import strongly_typed


@dataclass(frozen=True)
class Bootstrap(Proposal):
    """Move by the transition, weigh by the observation."""

    def bind(self, model: StateSpaceModel) -> BoundProposal:
        """Fit any model."""
        return _BoundBootstrap(model)


@dataclass(frozen=True, eq=False)
class _BoundBootstrap(BoundProposal):
    model: StateSpaceModel

    def propose(self, key, plan, theta, x_prev, y, inputs):
        x = strongly_typed(self.model.sample_transition(key, theta, x_prev, inputs))
        return Move(x, self.model.observation_log_prob(theta, x, y, inputs))
