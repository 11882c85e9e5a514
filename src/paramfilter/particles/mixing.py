"""Beliefs that are mixtures over ancestors, in place of each particle's own path.

A particle at x' that remembers one path rides on that path's ancestry, and paths are lost at each resampling. What it
should believe is a mixture over all ways to x',

    p(theta | x', y_1..y_t)  ~  sum_j w_j q_j(theta) p(x' | x_j, theta) p(y_t | x', theta),

over the particles j before the move. `AncestorMixing` takes several of them at each step, for beliefs that can hold any
mixture (`Grid`): the particle's own ancestor and others drawn by w, each of which counts by what its belief says about
the move, theta integrated out. The own ancestor is a draw from the distribution of ancestors given x', and one right
draw among proposals makes the average right, whatever their number (Tjelmeland 2004, Using all Metropolis-Hastings
proposals to estimate mean values, NTNU Statistics 4).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from paramfilter.arguments import whole_number
from paramfilter.errors import ModelError
from paramfilter.model import Transition
from paramfilter.particles.belief import Statistic
from paramfilter.particles.parts import Parents, Parts
from paramfilter.types import KeyArray


@dataclass(frozen=True)
class AncestorMixing:
    """Mix beliefs over several ancestors at each step.

    Args:
        num_ancestors: How many, the particle's own included. Four do for smooth models; heavy tails need eight.
    """

    num_ancestors: int = 4

    def __post_init__(self):
        advice = "Use AncestorMixing(4), or mixing=None for paths."
        number = whole_number(self.num_ancestors, "num_ancestors", 2, advice, ModelError)
        object.__setattr__(self, "num_ancestors", number)


def updated(parts: Parts, key: KeyArray, parents: Parents, data: Transition) -> Statistic:
    """Return the statistics after the data: along paths, or mixed over ancestors."""
    if not parts.num_ancestors:
        return parts.belief.update_all(parents.shared, parents.particles.statistics, data)
    pool = parents.pool
    several = several_ancestors(key, parts.num_ancestors, pool.log_weights, parents.ancestors)
    return parts.belief.update_from_ancestors(parents.shared, pool.statistics, replace(data, x_prev=pool.x), several)


def several_ancestors(
    key: KeyArray, num_ancestors: int, log_weights: Float[Array, " particle"], own: Int[Array, " particle"]
) -> Int[Array, "particle ancestor"]:
    """Return each particle's own ancestor and others drawn by weight."""
    cumulative = jnp.cumsum(jax.nn.softmax(log_weights))

    def draw(key):
        points = jax.random.uniform(key, own.shape, cumulative.dtype) * cumulative[-1]
        found = jnp.searchsorted(cumulative, points, side="right")
        return jnp.clip(found, 0, len(own) - 1).astype(jnp.int32)

    others = jax.vmap(draw)(jax.random.split(key, num_ancestors - 1))
    return jnp.concatenate([own[None], others]).T
