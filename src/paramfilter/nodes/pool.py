"""Nodes of several rounds, each drawn from its own proposal, and weighed as if drawn from the mean of all proposals.

    w_i  ~  p(z_i) L(z_i) / mean_k q_k(z_i)

L is the likelihood; while tempering, that of the last observation or of all has a power below 1. A node where its own
proposal is thin would have a huge weight; here it has an ordinary one as soon as another proposal covers it (balance
heuristic: E. Veach and L. Guibas, Optimally combining sampling techniques for Monte Carlo rendering, SIGGRAPH 1995).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from paramfilter.nodes.proposals import Mixture, log_sum, shares_of
from paramfilter.nodes.state import Nodes
from paramfilter.numerics.compensated import CompensatedSum
from paramfilter.tracing import is_traced, numbers
from paramfilter.types import Numbers

LEAST = -1e30
"""In place of minus infinity, from which nothing can be taken off."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Pool:
    """Nodes of the last rounds, in as many slots as there may be rounds.

    Attributes:
        z: The nodes.
        log_prior: log p(z).
        log_likelihood: log p(y_1..y_t | z), less `offset`.
        log_last: log p(y_t | y_1..y_{t-1}, z).
        log_densities: Log density of each distribution at all nodes.
        laws: The distributions, with a leading axis.
        is_used: Which slots have nodes.
        offset: What was taken off the log likelihoods.
    """

    z: Float[Numbers, "round node param"]
    log_prior: Float[Numbers, "round node"]
    log_likelihood: Float[Numbers, "round node"]
    log_last: Float[Numbers, "round node"]
    log_densities: Float[Numbers, "law round node"]
    laws: Mixture
    is_used: Bool[Numbers, " round"]
    offset: CompensatedSum

    @classmethod
    def start(cls, nodes: Nodes, log_last: Float[Numbers, " node"], num_slots: int, precision: Any) -> Pool:
        """Begin with nodes whose distribution is known at themselves alone."""
        xp = numbers(nodes)
        is_first = xp.arange(num_slots) == 0

        def first(leaf):
            leaf = xp.asarray(leaf, precision)
            return xp.where(is_first.reshape(-1, *[1] * leaf.ndim), leaf, xp.zeros((), precision))

        z = first(nodes.z)
        return cls(
            z=z,
            log_prior=first(nodes.log_prior),
            log_likelihood=first(nodes.log_likelihood),
            log_last=first(log_last),
            log_densities=xp.where(is_first[:, None, None], first(nodes.log_proposal), xp.asarray(LEAST, precision)),
            laws=Mixture.blank(num_slots, len(nodes.z), z.shape[-1], precision),
            is_used=is_first,
            offset=nodes.offset,
        )

    def add(self, nodes: Nodes, log_last: Float[Numbers, " node"], law: Mixture, slot: Any) -> Pool:
        """Put the nodes of one distribution into a slot."""
        xp = numbers(self, nodes, law, slot)
        here = xp.arange(len(self.z)) == slot
        put = lambda new, old: xp.where(here.reshape(-1, *[1] * (old.ndim - 1)), new, old).astype(old.dtype)
        z = put(nodes.z, self.z)
        laws = jax.tree.map(put, law, self.laws)
        used = here | self.is_used
        at_all = _at_rounds(law, z, used)
        at_new = xp.where(here[:, None], at_all, _by_laws(laws, xp.asarray(nodes.z, z.dtype), self.is_used & ~here))
        columns = xp.where(here[:, None], at_new[:, None], self.log_densities)
        return Pool(
            z=z,
            log_prior=put(nodes.log_prior, self.log_prior),
            log_likelihood=put(nodes.log_likelihood + nodes.offset.less(self.offset), self.log_likelihood),
            log_last=put(log_last, self.log_last),
            log_densities=put(at_all, columns),
            laws=laws,
            is_used=used,
            offset=self.offset,
        )

    def log_weights(self, of_past: Any = 1.0, of_last: Any = 1.0) -> Float[Numbers, "*power all"]:
        """Return log weights of the nodes of all slots.

        Args:
            of_past: Power of p(y_1..y_{t-1} | z), or several.
            of_last: Power of p(y_t | y_1..y_{t-1}, z), or as many.
        """
        xp = numbers(self)
        used = self.is_used
        log_mean = log_sum(xp.where(used[:, None, None], self.log_densities, LEAST)) - xp.log(xp.sum(used))
        of_past, of_last = (xp.asarray(power, self.z.dtype)[..., None, None] for power in (of_past, of_last))
        tempered = of_past * self.log_likelihood + (of_last - of_past) * self.log_last
        log_weights = xp.where(used[:, None], self.log_prior - log_mean + tempered, LEAST)
        return log_weights.reshape(*log_weights.shape[:-2], -1).astype(self.z.dtype)

    def without_first(self) -> Pool:
        """Leave out the nodes that the pool began with: as their distribution is not known at the others, weights are
        not exact with them, but good enough to say where the next nodes should be."""
        return replace(self, is_used=self.is_used & (numbers(self).arange(len(self.z)) > 0))

    @property
    def points(self) -> Float[Numbers, "all param"]:
        """The nodes of all slots."""
        return self.z.reshape(-1, self.z.shape[-1])


def effective(log_weights: Float[Numbers, "*power all"]) -> Float[Numbers, "*power"]:
    """Return the effective sample size."""
    shares = shares_of(log_weights)
    return 1.0 / numbers(log_weights).sum(shares**2, axis=-1)


def _at_rounds(
    law: Mixture, z: Float[Numbers, "round node param"], used: Bool[Numbers, " round"]
) -> Float[Numbers, "round node"]:
    """Return the log density of one distribution at the nodes of the rounds that are used; of the others any number."""
    if is_traced((law, z, used)):
        return law.log_density(z.reshape(-1, z.shape[-1])).reshape(z.shape[:2])
    found = np.full(z.shape[:2], LEAST, z.dtype)
    found[used] = law.log_density(z[used].reshape(-1, z.shape[-1])).reshape(-1, z.shape[1])
    return found


def _by_laws(laws: Mixture, z: Float[Numbers, "node param"], used: Bool[Numbers, " law"]) -> Float[Numbers, "law node"]:
    """Return the log density of the distributions that are used; of the others any number."""
    if is_traced((laws, z, used)):
        return jax.lax.map(lambda law: law.log_density(jnp.asarray(z)), laws)
    found = np.full((len(used), len(z)), LEAST, z.dtype)
    found[used] = jax.tree.map(lambda leaf: leaf[used], laws).log_density(z)
    return found
