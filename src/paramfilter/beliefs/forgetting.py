"""A belief that forgets, for parameters that drift.

Before a datum comes in, what all data before it have said is counted by a share just below one:

    q(theta)  becomes  p(theta)^(1 - share) q(theta)^share,        share = 1 - 1 / memory.

So a datum that is `memory` steps old counts by 1/e of a fresh one, and without news the belief goes back to the prior.
For the conjugate belief of a regression this is recursive least squares with exponential forgetting. The loss of old
paths does less harm too: what rode on them fades.

Whether to forget at all is a question to the data: compare `state.log_evidence` of filters with other memories.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from paramfilter.beliefs.base import Belief, BoundBelief, absorb_alone
from paramfilter.errors import BeliefError
from paramfilter.model import StateSpaceModel


@dataclass(frozen=True)
class Forgetting(Belief):
    """Another belief, whose past fades.

    Args:
        belief: What forgets.
        memory: After how many observations a datum counts 1/e of a fresh one; infinity forgets nothing.
    """

    belief: Belief
    memory: float

    def bind(self, model: StateSpaceModel) -> BoundBelief:
        """Fit what the inner belief fits, if that can forget."""
        if not self.memory > 1:
            raise BeliefError(f"the memory of Forgetting must be longer than one observation, got {self.memory!r}.")
        inner = self.belief.bind(model)
        if not inner.can_fade:
            raise BeliefError(
                f"{inner.name} cannot forget, because nothing in it can be counted by a share. Use Conjugate(), "
                "Chebyshev() or CrossInterpolation() instead."
            )
        return BoundForgetting(model, inner, float(self.memory), repr(self))


@dataclass(frozen=True, eq=False)
class BoundForgetting(BoundBelief):
    """The belief, bound to a model."""

    model: StateSpaceModel
    inner: BoundBelief
    memory: float
    name: str

    def start_shared(self, z):
        return self.inner.start_shared(z)

    def start(self):
        return self.inner.start()

    def absorb_initial(self, shared, statistic, x, inputs):
        return self.inner.absorb_initial(shared, statistic, x, inputs)

    def absorb(self, shared, statistic, datum):
        return absorb_alone(self, shared, statistic, datum)

    def absorb_all(self, shared, statistics, data):
        return self.inner.absorb_all(shared, self._faded_all(statistics), data)

    def _faded_all(self, statistics):
        share = jnp.asarray(1.0 - 1.0 / self.memory)
        return jax.vmap(lambda statistic: self.inner.faded(statistic, share))(statistics)

    def faded(self, statistic, share):
        return self.inner.faded(statistic, share)

    @property
    def can_mix(self):
        return self.inner.can_mix

    def mixed(self, shared, first, second):
        return self.inner.mixed(shared, first, second)

    @property
    def holds_mixtures(self):
        return self.inner.holds_mixtures

    def absorb_from_many(self, shared, statistics, data, ancestors):
        return self.inner.absorb_from_many(shared, self._faded_all(statistics), data, ancestors)

    def can_mix_now(self, shared):
        return self.inner.can_mix_now(shared)

    def draw(self, key, shared, statistic, previous):
        return self.inner.draw(key, shared, statistic, previous)

    def moments(self, shared, statistic, z):
        return self.inner.moments(shared, statistic, z)

    def log_prob(self, shared, statistic, z):
        return self.inner.log_prob(shared, statistic, z)

    def transition_blur(self, shared, statistic, z, x_prev, inputs):
        return self.inner.transition_blur(shared, statistic, z, x_prev, inputs)

    def approximation_error(self, shared, statistic):
        return self.inner.approximation_error(shared, statistic)

    def regroup(self, shared, statistics, z, log_weights):
        return self.inner.regroup(shared, statistics, z, log_weights)

    def witness(self, key, shared, data, z, log_weights, time):
        return self.inner.witness(key, shared, data, z, log_weights, time)
