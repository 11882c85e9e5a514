"""Islands: groups of particles in one filter that never exchange a particle.

The particles of all islands lie on one axis, one island after the other, so everything that is done to each particle
by itself knows nothing of islands. Only two things do: resampling happens within an island, and each island has the
same share of the total weight, whatever its own estimate of the evidence; estimates drift apart for ever, and would
leave one island with all the weight. What is reported is the pool of all islands: their disagreement, which one
filter alone cannot see, is part of the posterior's spread, and an alarm (`disagreement`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Shaped

from paramfilter.numerics.weights import effective_sample_size, normalise, weighted_mean_and_variance
from paramfilter.resampling import Resampled, Resampling
from paramfilter.types import KeyArray


def split(num_islands: int, values: Float[Array, "particle ..."]) -> Float[Array, "island member ..."]:
    """Give each island its own row."""
    return values.reshape(num_islands, -1, *values.shape[1:])


def resample_within(
    resampling: Resampling, num_islands: int, key: KeyArray, log_weights: Float[Array, " particle"]
) -> Resampled:
    """Resample each island by itself, so that it keeps its share of the weight; tell of each whether it was."""
    if num_islands == 1:
        only = resampling.resample(key, log_weights)
        return replace(only, happened=only.happened[None])
    each = jax.vmap(resampling.resample)(jax.random.split(key, num_islands), split(num_islands, log_weights))
    return Resampled(
        ancestors=among_all(each.ancestors),
        log_weights=jnp.ravel(each.log_weights) - jnp.log(jnp.asarray(num_islands, log_weights.dtype)),
        happened=each.happened,
    )


def among_all(places: Int[Array, "island member"]) -> Int[Array, " particle"]:
    """Turn places within each island into places among all particles."""
    num_islands, size = places.shape
    return jnp.ravel(places + size * jnp.arange(num_islands, dtype=places.dtype)[:, None])


def normalise_within(
    num_islands: int, log_weights: Float[Array, " particle"]
) -> tuple[Float[Array, " particle"], Float[Array, " island"]]:
    """Give each island the same total weight; return the weights, and the logarithms of what each island had."""
    each, log_totals = jax.vmap(normalise)(split(num_islands, log_weights))
    return jnp.ravel(each) - jnp.log(jnp.asarray(num_islands, log_weights.dtype)), log_totals


def members(of_island: Shaped[Array, " island"], num_particles: int) -> Shaped[Array, " particle"]:
    """Tell of each particle what holds for its island."""
    return jnp.repeat(of_island, num_particles // len(of_island), total_repeat_length=num_particles)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class IslandMoments:
    """What each island says about theta, and on how many particles that rests."""

    mean: Float[Array, "island param"]
    variance: Float[Array, "island param"]
    size: Float[Array, " island"]


def island_moments(
    num_islands: int, z: Float[Array, "particle param"], log_weights: Float[Array, " particle"]
) -> IslandMoments:
    """Return mean, variance and effective sample size of each island."""
    weights = split(num_islands, log_weights)
    means, variances = jax.vmap(weighted_mean_and_variance)(weights, split(num_islands, z))
    return IslandMoments(means, variances, jax.vmap(effective_sample_size)(weights))


def disagreement(islands: IslandMoments) -> Float[Array, " param"]:
    """Return the R-hat of each coordinate of theta: sd of the pool over the mean sd within islands; NaN for one island.

    What the finite number of draws adds to the variance between islands is taken off, so that islands which agree
    have an R-hat of 1 (Gelman and Rubin 1992, Statist. Sci. 7, for chains).
    """
    if len(islands.size) == 1:
        return jnp.full_like(islands.mean[0], jnp.nan)
    within = jnp.mean(islands.variance, axis=0)
    chance = jnp.mean(islands.variance / islands.size[:, None], axis=0)
    between = jnp.maximum(jnp.var(islands.mean, axis=0, ddof=1) - chance, 0.0)
    return jnp.sqrt(1.0 + between / jnp.where(within > 0, within, jnp.finfo(within.dtype).tiny))
