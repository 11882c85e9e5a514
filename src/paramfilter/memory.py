"""How long should a filter remember? Let the evidence say, while it runs.

A `MemoryBank` runs the same filter with several memories side by side, on the same random numbers, and keeps the
running evidence of each: who forecasts best has the right memory. With infinity among them it also answers whether
the parameters drift at all.

>>> import jax, paramfilter as pf
>>> bank = pf.MemoryBank(pf.storvik_filter(pf.models.linear_gaussian(), num_particles=100), (20, 200, float("inf")))
>>> state = bank.init(jax.random.key(0))
>>> state, info = bank.step(state, 0.3)
>>> [round(float(weight), 2) for weight in bank.weights(state)]
[0.33, 0.33, 0.33]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from paramfilter.beliefs import Forgetting
from paramfilter.beliefs.forgetting import share_kept, with_share
from paramfilter.errors import ModelError
from paramfilter.filters import FilterState, ParticleFilter, Posterior, StepInfo
from paramfilter.model import as_inputs
from paramfilter.types import Inputs, KeyArray, Observation


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class BankState:
    """The states of all members, with a leading axis, and their running log evidence."""

    members: FilterState
    log_evidence: Float[Array, " member"]


class MemoryBank:
    """One filter with several memories, weighed by their running evidence.

    Args:
        filter: The filter; its belief must be able to forget.
        memories: How long each member remembers, in observations; infinity forgets nothing.
        horizon: After how many observations evidence counts 1/e; None counts all of it alike. A bank that is to notice
            when drift sets in needs one.
    """

    def __init__(self, filter: ParticleFilter, memories: Sequence[float], horizon: float | None = None):
        if len(memories) < 2 or min(memories) <= 1 or (horizon is not None and horizon <= 1):
            raise ModelError(
                "MemoryBank needs two memories at least, and they and the horizon longer than one observation; got "
                f"{memories!r} and {horizon!r}. Try MemoryBank(filter, (100, 1000, float('inf')))."
            )
        self.memories = tuple(float(memory) for memory in memories)
        self.horizon = horizon
        belief = filter.belief.belief if isinstance(filter.belief, Forgetting) else filter.belief
        self.filter = replace(filter, belief=Forgetting(belief, max(self.memories)))

    def init(self, key: KeyArray, inputs: Inputs = None) -> BankState:
        """Start all members from the same particles."""
        first = self.filter.init(key, inputs)
        shares = jnp.asarray([share_kept(memory) for memory in self.memories], first.z.dtype)
        start = lambda share: replace(first, shared=with_share(first.shared, share))
        return BankState(jax.vmap(start)(shares), jnp.zeros(len(self.memories), first.z.dtype))

    def step(self, state: BankState, y: Observation, inputs: Inputs = None) -> tuple[BankState, StepInfo]:
        """Take in one observation; the info of all members has a leading axis."""
        y = self.filter.as_observation(y)
        kept = 1.0 if self.horizon is None else share_kept(self.horizon)
        members, info = self.filter.compiled(_step_all)(state.members, y, as_inputs(inputs))
        return BankState(members, kept * state.log_evidence + info.log_evidence_increment), info

    def weights(self, state: BankState) -> Float[Array, " member"]:
        """Return how likely each memory is, by its evidence."""
        return jax.nn.softmax(state.log_evidence)

    def best(self, state: BankState) -> FilterState:
        """Return the state of the member with the best evidence, to go on with or to save."""
        return jax.tree.map(lambda leaf: leaf[jnp.argmax(state.log_evidence)], state.members)

    def posterior(self, state: BankState) -> Posterior:
        """Return the posterior of the member with the best evidence."""
        return self.filter.posterior(self.best(state))


def _step_all(filter: ParticleFilter, members: FilterState, y: Observation, inputs: Inputs):
    return jax.vmap(lambda member: filter.step(member, y, inputs))(members)
