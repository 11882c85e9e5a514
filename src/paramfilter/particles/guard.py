"""What may go wrong in a step, and what is done about it: nothing raises, and nothing passes in silence.

- A particle for which the model is NaN gets weight zero and keeps its old state.
- A datum that a statistic cannot hold is left out of that particle's belief.
- A step that no particle survives is undone.
- An observation of +-inf is refused: the state is as before.
- An observation so unlikely that rounding hides the differences between particles teaches nothing.
- A gap in the data narrows no belief to a point: see `learned`.

All of it is flagged in `info.outcome`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int

from paramfilter.numerics.sparse import sparse_cond
from paramfilter.numerics.weights import normalise, weighted_mean_and_variance
from paramfilter.outcome import Outcome
from paramfilter.particles.accuracy import ERROR_LIMIT
from paramfilter.particles.belief import BoundBelief, Statistic
from paramfilter.particles.parts import Parents, Particles
from paramfilter.proposals import Move
from paramfilter.types import Observation


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Verdict:
    """What came of a step.

    Attributes:
        is_usable: Particles whose move can be used.
        fits: Particles whose statistic could hold the datum.
        is_refused: The observation holds an infinity.
        has_failed: No particle explains the observation, or rounding hides which one does.
        log_total: Log of the mean weight: the increment of the log evidence.
    """

    is_usable: Bool[Array, " particle"]
    fits: Bool[Array, " particle"]
    is_refused: Bool[Array, ""]
    has_failed: Bool[Array, ""]
    log_total: Float[Array, ""]

    @property
    def is_accepted(self) -> Bool[Array, ""]:
        """Whether the observation was taken in."""
        return ~self.is_refused & ~self.has_failed

    def accepted(self, new: Any, old: Any) -> Any:
        """Return the new values if the observation was taken in, and else the old ones."""
        return jax.tree.map(lambda one, other: jnp.where(self.is_accepted, one, other), new, old)


def usable(moves: Move, parents: Parents) -> Bool[Array, " particle"]:
    """Tell which moves can be used."""
    return jax.vmap(_all_finite)((moves.x, parents.draws.z)) & (moves.log_weight < jnp.inf)


def learned(belief: BoundBelief, parents: Parents, updated: Statistic, y: Observation) -> Statistic:
    """Return the statistics after a move; those before it if y is missing and the beliefs have become narrow.

    A move without an observation is drawn with the particle's own theta, and a belief that follows the path learns from
    it. Over a short gap that is right: it ties theta to the state, which the next observation needs. Over a long gap
    each belief closes around one value, and the filter is left with as many values as particles. So such a move counts
    only until the beliefs' means vary by more than the mean variance of a belief, in any parameter.
    """
    before = parents.particles

    def are_narrow(beliefs):
        shared, statistics, z, log_weights = beliefs
        each = jax.vmap(belief.moments, in_axes=(None, 0, 0))(shared, statistics, z)
        within = jax.tree.map(lambda leaf: weighted_mean_and_variance(log_weights, leaf)[0], each.variance)
        apart = jax.tree.map(lambda leaf: weighted_mean_and_variance(log_weights, leaf)[1], each.mean)
        return ravel_pytree(jax.tree.map(jnp.greater, apart, within))[0].any()

    beliefs = parents.shared, before.statistics, before.z, before.log_weights
    is_kept = sparse_cond(jnp.isnan(ravel_pytree(y)[0]).all(), are_narrow, beliefs, jnp.bool_(False))
    return jax.tree.map(lambda old, new: jnp.where(is_kept, old, new), before.statistics, updated)


def guarded(
    parents: Parents, moves: Move, is_usable: Bool[Array, " particle"], updated: Statistic, given: Observation
) -> tuple[Particles, Verdict]:
    """Return the particles after a step, each as it was where its move or its statistic cannot be used."""
    before = parents.particles
    x, z = keep_where(is_usable, (moves.x, parents.draws.z), (before.x, before.z))
    # vmap needs one mapped argument; z provides it when there is no statistic.
    fits = jax.vmap(lambda statistic, _: _all_finite(statistic))(updated, z)
    statistics = keep_where(is_usable & fits, updated, before.statistics)
    log_weights = before.log_weights + jnp.where(is_usable, moves.log_weight, -jnp.inf)
    log_weights, log_total = normalise(log_weights)
    is_refused = _holds_infinity(given)
    # Beyond this the differences between particles are rounding, and equal weights would look like a perfect step.
    best = jnp.max(jnp.where(is_usable, moves.log_weight, -jnp.inf))
    is_noise = jnp.finfo(best.dtype).eps * jnp.abs(best) > 1
    has_failed = (is_noise | ~jnp.isfinite(log_total)) & ~is_refused
    return Particles(x, z, statistics, log_weights), Verdict(is_usable, fits, is_refused, has_failed, log_total)


def flags_of(
    verdict: Verdict, drawn: Int[Array, " particle"], error: Float[Array, ""], has_skipped: Bool[Array, ""]
) -> Int[Array, ""]:
    """Return the flags of a step; an observation that was refused raises no other."""
    raised = [
        (verdict.has_failed, Outcome.ALL_WEIGHTS_ZERO),
        (jnp.any(~verdict.is_usable), Outcome.MODEL_RETURNED_NAN),
        (~(error <= ERROR_LIMIT), Outcome.BELIEF_INACCURATE),  # also if it is no number
        (jnp.any(verdict.is_usable & ~verdict.fits), Outcome.STATISTIC_OVERFLOW),
        (has_skipped, Outcome.OUTLIER_SKIPPED),
    ]
    flags = jax.lax.reduce(drawn, jnp.int32(Outcome.OK), jax.lax.bitwise_or, (0,))
    for is_raised, flag in raised:
        flags |= jnp.where(is_raised, int(flag), 0)
    return jnp.where(verdict.is_refused, int(Outcome.OBSERVATION_NOT_FINITE), flags).astype(jnp.int32)


def _all_finite(tree: Any) -> Bool[Array, ""]:
    """Tell whether every number of one particle's tree is finite."""
    return functools.reduce(
        jnp.logical_and, [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)], jnp.bool_(True)
    )


def _holds_infinity(y: Observation) -> Bool[Array, ""]:
    return functools.reduce(jnp.logical_or, [jnp.any(jnp.isinf(leaf)) for leaf in jax.tree.leaves(y)], jnp.bool_(False))


def keep_where(mask: Bool[Array, " particle"], new: Any, old: Any) -> Any:
    """Take the new values of the particles where `mask` holds, the old ones elsewhere."""

    def choose(new_leaf, old_leaf):
        return jnp.where(mask.reshape(-1, *[1] * (new_leaf.ndim - 1)), new_leaf, old_leaf)

    return jax.tree.map(choose, new, old)
