"""The posterior of theta at one time: a weighted mixture of the beliefs of the particles.

    p(theta | y_1..y_t)  ~  sum_i w^i q(theta | S^i)

Means and standard deviations use the mean and variance of each belief (Rao-Blackwellised), not single draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float, Int, Key, PyTree

from paramfilter.arguments import kind_of, require_key, whole_number
from paramfilter.beliefs import BoundBelief, Moments
from paramfilter.beliefs.base import adapt, rms_error
from paramfilter.errors import ArgumentError
from paramfilter.filters.state import FilterState, in_brief
from paramfilter.labels import prior_in_brief
from paramfilter.numerics.weights import choose_by_weight, mixture_mean_and_variance
from paramfilter.tracing import RUN_ONCE, is_traced
from paramfilter.types import KeyArray, Theta

if TYPE_CHECKING:
    from paramfilter.filters.particle_filter import ParticleFilter

Values = Array | np.ndarray
"""Of a parameter: NumPy's, unless they are being traced."""

ALL_ISLANDS = -1
"""In place of the number of an island. Folded into a key it is the largest number there is, which no step uses."""

BATCH = 1024
"""Draws of theta that one call of the compiled function makes."""

LEAST_VARIANCE = 1e-8
"""Of a kernel, in unconstrained coordinates: particles that have collapsed into one value still have a density."""

NUM_QUANTILE_DRAWS = 16 * BATCH
"""Draws behind a quantile: its level is right to about 0.004."""


class ErrorEstimate(dict[str, Values]):
    """The estimated error of each posterior mean, in posterior sds; NaN if a part of it was not measured.

    Attributes:
        measured: The error of the parts that were measured, by name: the true error may be larger.
        not_measured: Which part was not measured and why; empty if all parts were.
    """

    def __init__(self, measured: Mapping[str, Values], not_measured: str = ""):
        super().__init__({name: np.full_like(one, np.nan) if not_measured else one for name, one in measured.items()})
        self.measured, self.not_measured = measured, not_measured

    @property
    def largest(self) -> float:
        """The largest of the measured errors."""
        return float(max(map(float, self.measured.values())))

    def __repr__(self) -> str:
        figures = ", ".join(f"{name!r}: {float(one):.2g}" for name, one in self.measured.items())
        return (
            f"{{{figures}}}" if not self.not_measured else f"not measured: {self.not_measured}; the rest: {{{figures}}}"
        )


@dataclass(frozen=True, eq=False)
class Posterior:
    """Posterior of the parameters. Every method returns a dict keyed by parameter name, in the original units."""

    filter: ParticleFilter
    state: FilterState

    def __repr__(self) -> str:
        names = prior_in_brief(self.filter.model.prior)
        return f"{type(self).__name__}({names}; {in_brief(self.state)})"

    def mean(self) -> dict[str, Values]:
        """Return the posterior mean of each parameter."""
        return self._in_order(self.filter.compiled(_means_and_sds, compiler_options=RUN_ONCE)(self.state)[0])

    def sd(self) -> dict[str, Values]:
        """Return the posterior standard deviation of each parameter."""
        return self._in_order(self.filter.compiled(_means_and_sds, compiler_options=RUN_ONCE)(self.state)[1])

    def quantile(self, q: float | Sequence[float]) -> dict[str, Values]:
        """Return quantiles of each parameter, from draws with a fixed key.

        Args:
            q: One level between 0 and 1, or a sequence of levels, which adds a leading axis.

        Returns:
            A dict such as `{"phi": array([0.70, 0.88])}` for `quantile([0.05, 0.95])`.
        """
        levels = levels_of(q)
        draws = self._drawn(self.state.key, NUM_QUANTILE_DRAWS, ALL_ISLANDS)
        if is_traced(draws):
            return self._in_order({name: jnp.quantile(values, levels, axis=0) for name, values in draws.items()})
        return self._in_order({name: np.array(np.quantile(values, levels, axis=0)) for name, values in draws.items()})

    def _in_order(self, values: dict[str, Values]) -> dict[str, Values]:
        """Put names in the order of the prior: what JAX returns is in that of the alphabet."""
        return {name: values[name] for name in self.filter.model.parameters.names}

    def sample(self, key: KeyArray, num_draws: int) -> dict[str, Values]:
        """Draw parameters from the posterior.

        Args:
            key: Random key, `jax.random.key(seed)`.
            num_draws: Number of draws. A new number does not compile again.

        Returns:
            A dict with a leading axis of draws.
        """
        require_key(key, "posterior.sample(key, num_draws)")
        num_draws = whole_number(num_draws, "num_draws", 1, "The call is posterior.sample(key, num_draws).")
        return self._in_order(self._drawn(key, num_draws, ALL_ISLANDS))

    def chains(self, key: KeyArray, num_draws: int) -> dict[str, Values]:
        """Draw parameters from each island separately, with axes (island, draw, ...), which ArviZ reads as chains.

        The R-hat of `arviz.from_dict({"posterior": posterior.chains(key, 1000)})` measures how far islands disagree.

        Args:
            key: Random key, `jax.random.key(seed)`.
            num_draws: Number of draws from each island.
        """
        require_key(key, "posterior.chains(key, num_draws)")
        num_draws = whole_number(num_draws, "num_draws", 1, "The call is posterior.chains(key, num_draws).")
        each = [self._drawn(key, num_draws, island) for island in range(self.filter.num_islands)]
        stacked = jnp.stack if is_traced(each) else np.stack
        return self._in_order(jax.tree.map(lambda *leaves: stacked(leaves), *each))

    def _drawn(self, key: KeyArray, num_draws: int, island: int) -> dict[str, Values]:
        """Draw in batches of one size, so that any number of draws uses one compile."""
        draw = self.filter.compiled(_draw_batch, compiler_options=RUN_ONCE)
        numbers = np.arange(-(-num_draws // BATCH), dtype=np.int32)
        batches = [draw(self.state, key, number, np.int32(island)) for number in numbers]
        joined = jnp.concatenate if is_traced(batches) else np.concatenate
        return jax.tree.map(lambda *leaves: joined(leaves)[:num_draws], *batches)

    def log_prob(self, theta: Theta) -> Float[Array, ""]:
        """Return the posterior log density at theta, in the original units.

        If particles hold single values of theta, Gaussian kernels with Silverman's bandwidth smooth them.

        Args:
            theta: A value for each named parameter.
        """
        z = self.filter.model.parameters.unconstrain(theta)
        return self.filter.compiled(_mixture_log_prob)(self.state, z)

    def error(self) -> ErrorEstimate:
        """Return the error of each posterior mean: not measured, since particles give no estimate of it."""
        unknown: dict[str, Values] = dict.fromkeys(self.filter.model.parameters.names, np.array(np.nan))
        return ErrorEstimate(unknown, "particles give no estimate of it: compare the means of runs with two keys")

    def error_so_far(self) -> ErrorEstimate:
        """Return what is known of the error without further work: here the same."""
        return self.error()

    def approximation_error(self) -> Float[Array, ""]:
        """Return the error of the beliefs in nats (root mean square); 0 if they are exact.

        Posterior means may be wrong by about as many posterior standard deviations.
        """
        return self.filter.compiled(_mixture_error)(self.state)


def levels_of(q: float | Sequence[float]) -> Float[np.ndarray, "..."]:
    """Return levels of quantiles as an array, or raise `ArgumentError`."""
    try:
        levels = np.asarray(q, float)
    except (TypeError, ValueError):
        levels = np.array(np.nan)
    if not np.all((levels >= 0) & (levels <= 1)):
        raise ArgumentError(
            f"levels of a quantile lie between 0 and 1, got {q if isinstance(q, list | tuple) else kind_of(q)}. Write "
            "0.95 for the 95 % quantile; the result is a dict with all parameters."
        )
    return levels.astype(jnp.result_type(float))


def _means_and_sds(filter: ParticleFilter, state: FilterState) -> tuple[dict[str, Array], dict[str, Array]]:
    moments = mixture_moments(filter, state)
    return moments.mean, jax.tree.map(jnp.sqrt, moments.variance)


def mixture_moments(filter: ParticleFilter, state: FilterState) -> Moments:
    """Return mean and variance of the mixture of beliefs."""
    belief = filter.bound_belief
    shared, statistics = _adapted(belief, state)
    return pooled(state.log_weights, jax.vmap(belief.moments, in_axes=(None, 0, 0))(shared, statistics, state.z))


def _adapted(belief: BoundBelief, state: FilterState) -> tuple[PyTree, PyTree]:
    """Return the shared and the individual statistics of the beliefs between two steps."""
    return adapt(belief, state.shared, state.statistics, state.z, state.log_weights)


def pooled(log_weights: Float[Array, " part"], each: Moments) -> Moments:
    """Return the moments of a mixture from those of its parts."""
    return Moments(*mixture_mean_and_variance(log_weights, each.mean, each.variance))


def draw_joint(
    filter: ParticleFilter, state: FilterState, key_choose: KeyArray, keys_draw: Key[Array, " draw"]
) -> tuple[PyTree, Float[Array, "draw param"]]:
    """Draw (x_t, theta) together, one pair for each key: a particle by weight, and theta from its belief."""
    belief = filter.bound_belief
    shared, statistics = _adapted(belief, state)
    chosen = choose_by_weight(key_choose, state.log_weights, len(keys_draw))
    x, statistics, z = jax.tree.map(lambda leaf: leaf[chosen], (state.x, statistics, state.z))
    z = jax.vmap(belief.sample, in_axes=(0, None, 0, 0))(keys_draw, shared, statistics, z).z
    return x, z


def _draw_batch(
    filter: ParticleFilter, state: FilterState, key: KeyArray, number: Int[Array, ""], island: Int[Array, ""]
) -> dict[str, Array]:
    """Draw the thetas of one batch, from one island or from all."""
    key = jax.random.fold_in(jax.random.fold_in(key, island), number)
    keys = jax.random.split(key, BATCH + 2)
    own = jnp.repeat(jnp.arange(filter.num_islands), filter.num_particles // filter.num_islands)
    is_chosen = (own == island) | (island == ALL_ISLANDS)
    only = replace(state, log_weights=jnp.where(is_chosen, state.log_weights, -jnp.inf))
    z = draw_joint(filter, only, keys[0], keys[2:])[1]
    # Draws come in the order of particles, and the caller may want the first few alone.
    return jax.vmap(filter.model.parameters.constrain)(jax.random.permutation(keys[1], z))


def _mixture_log_prob(filter: ParticleFilter, state: FilterState, z: Float[Array, " param"]) -> Float[Array, ""]:
    belief, parameters = filter.bound_belief, filter.model.parameters
    if not belief.has_density:
        return _kernel_log_prob(state, z) - parameters.log_volume(z)
    shared, statistics = _adapted(belief, state)
    # vmap needs one mapped argument; z provides it when there is no statistic.
    each = jax.vmap(lambda statistic, _: belief.log_prob(shared, statistic, z))(statistics, state.z)
    terms = jnp.where(state.log_weights > -jnp.inf, state.log_weights + each, -jnp.inf)
    return jax.nn.logsumexp(terms) - parameters.log_volume(z)


def _kernel_log_prob(state: FilterState, z: Float[Array, " param"]) -> Float[Array, ""]:
    """Return the log density of weighted points, each spread as all are (B. Silverman, Density Estimation, 1986)."""
    weights, dimension = jnp.exp(state.log_weights), len(z)
    apart = state.z - weights @ state.z
    ess = 1 / jnp.sum(weights**2)
    width = (4 / (dimension + 2) / ess) ** (1 / (dimension + 4))
    covariance = width**2 * (weights[:, None] * apart).T @ apart + LEAST_VARIANCE * jnp.eye(dimension)
    kernels = dist.MultivariateNormal(state.z, covariance)
    return jax.nn.logsumexp(state.log_weights + kernels.log_prob(z))


def _mixture_error(filter: ParticleFilter, state: FilterState) -> Float[Array, ""]:
    return rms_error(filter.bound_belief, state.shared, state.statistics, state.log_weights)
