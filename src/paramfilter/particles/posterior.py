"""The posterior of theta at one time: a weighted mixture of the beliefs of the particles.

    p(theta | y_1..y_t)  ~  sum_i w^i q(theta | S^i)

Means and standard deviations use the mean and variance of each belief (Rao-Blackwellised), not single draws.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float, Int, Key, PyTree

from paramfilter.filters import Posterior
from paramfilter.filters.estimates import ErrorEstimate, Moments, Values, pooled
from paramfilter.numerics.weights import choose_by_weight
from paramfilter.particles.belief import BoundBelief
from paramfilter.particles.state import ParticleState
from paramfilter.tracing import RUN_ONCE, is_traced
from paramfilter.types import KeyArray, Theta

BATCH = 1024
"""Draws of theta that one call of the compiled function makes."""

NO_STEP = 2**32 - 1
"""Folded into a key in place of a time: no step uses the same random numbers."""

LEAST_VARIANCE = 1e-8
"""Of a kernel, in unconstrained coordinates: particles that have collapsed into one value still have a density."""

NUM_QUANTILE_DRAWS = 16 * BATCH
"""Draws behind a quantile: its level is right to about 0.004."""


class ParticlePosterior(Posterior):
    """Posterior of the parameters, as particles hold it; quantiles come from draws with a fixed key."""

    engine: Any
    state: ParticleState

    def _means_and_sds(self) -> tuple[dict[str, Values], dict[str, Values]]:
        return self.engine.compiled(_means_and_sds, compiler_options=RUN_ONCE)(self.state)

    def _quantiles(self, levels: Float[np.ndarray, "..."]) -> dict[str, Values]:
        draws = self._draws(self.state.key, NUM_QUANTILE_DRAWS)
        if is_traced(draws):
            return {name: jnp.quantile(values, levels, axis=0) for name, values in draws.items()}
        return {name: np.array(np.quantile(values, levels, axis=0)) for name, values in draws.items()}

    def _draws(self, key: KeyArray, num_draws: int) -> dict[str, Values]:
        """Draw in batches of one size, so that any number of draws uses one compile."""
        draw = self.engine.compiled(_draw_batch, compiler_options=RUN_ONCE)
        batches = [draw(self.state, key, number) for number in np.arange(-(-num_draws // BATCH), dtype=np.int32)]
        joined = jnp.concatenate if is_traced(batches) else np.concatenate
        return jax.tree.map(lambda *leaves: joined(leaves)[:num_draws], *batches)

    def log_prob(self, theta: Theta) -> Float[Array, ""]:
        """Return the posterior log density at theta, in the original units.

        If particles hold single values of theta, Gaussian kernels with Silverman's bandwidth smooth them.

        Args:
            theta: A value for each named parameter.
        """
        z = self.engine.model.parameters.unconstrain(theta)
        return self.engine.compiled(_mixture_log_prob)(self.state, z)

    def error(self) -> ErrorEstimate:
        """Return the error of each posterior mean: not measured, since particles give no estimate of it."""
        unknown: dict[str, Values] = dict.fromkeys(self.engine.model.parameters.names, np.array(np.nan))
        return ErrorEstimate(unknown, "particles give no estimate of it: compare the means of runs with two keys")

    def error_so_far(self) -> ErrorEstimate:
        """Return what is known of the error without further work: here the same."""
        return self.error()


def mixture_moments(belief: BoundBelief, state: ParticleState) -> Moments:
    """Return mean and variance of the mixture of beliefs."""
    shared, statistics = _adapted(belief, state)
    return pooled(state.log_weights, jax.vmap(belief.moments, in_axes=(None, 0, 0))(shared, statistics, state.z))


def draw_joint(
    belief: BoundBelief, state: ParticleState, key_choose: KeyArray, keys_draw: Key[Array, " draw"]
) -> tuple[PyTree, Float[Array, "draw param"]]:
    """Draw (x_t, theta) together, one pair for each key: a particle by weight, and theta from its belief."""
    shared, statistics = _adapted(belief, state)
    chosen = choose_by_weight(key_choose, state.log_weights, len(keys_draw))
    x, statistics, z = jax.tree.map(lambda leaf: leaf[chosen], (state.x, statistics, state.z))
    return x, jax.vmap(belief.sample, in_axes=(0, None, 0, 0))(keys_draw, shared, statistics, z).z


def _adapted(belief: BoundBelief, state: ParticleState) -> tuple[PyTree, PyTree]:
    """Return the shared and the individual statistics of the beliefs between two steps."""
    return belief.adapt(state.shared, state.statistics, state.z, state.log_weights)


def _means_and_sds(engine: Any, state: ParticleState) -> tuple[dict[str, Array], dict[str, Array]]:
    moments = mixture_moments(engine.parts.belief, state)
    return moments.mean, jax.tree.map(jnp.sqrt, moments.variance)


def _draw_batch(engine: Any, state: ParticleState, key: KeyArray, number: Int[Array, ""]) -> dict[str, Array]:
    """Draw the thetas of one batch."""
    keys = jax.random.split(jax.random.fold_in(jax.random.fold_in(key, NO_STEP), number), BATCH + 2)
    z = draw_joint(engine.parts.belief, state, keys[0], keys[2:])[1]
    # Draws come in the order of particles, and the caller may want the first few alone.
    return jax.vmap(engine.model.parameters.constrain)(jax.random.permutation(keys[1], z))


def _mixture_log_prob(engine: Any, state: ParticleState, z: Float[Array, " param"]) -> Float[Array, ""]:
    belief, parameters = engine.parts.belief, engine.model.parameters
    if not belief.has_density:
        return _kernel_log_prob(state, z) - parameters.log_volume(z)
    shared, statistics = _adapted(belief, state)
    each = jax.vmap(lambda statistic: belief.log_prob(shared, statistic, z))(statistics)
    terms = jnp.where(state.log_weights > -jnp.inf, state.log_weights + each, -jnp.inf)
    return jax.nn.logsumexp(terms) - parameters.log_volume(z)


def _kernel_log_prob(state: ParticleState, z: Float[Array, " param"]) -> Float[Array, ""]:
    """Return the log density of weighted points, each spread as all are (B. Silverman, Density Estimation, 1986)."""
    weights, dimension = jnp.exp(state.log_weights), len(z)
    apart = state.z - weights @ state.z
    ess = 1 / jnp.sum(weights**2)
    width = (4 / (dimension + 2) / ess) ** (1 / (dimension + 4))
    covariance = width**2 * (weights[:, None] * apart).T @ apart + LEAST_VARIANCE * jnp.eye(dimension)
    kernels = dist.MultivariateNormal(state.z, covariance)
    return jax.nn.logsumexp(state.log_weights + kernels.log_prob(z))
