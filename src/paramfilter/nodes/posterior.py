"""The posterior of theta at one moment, as read from the nodes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from paramfilter.filters import Posterior
from paramfilter.filters.estimates import ErrorEstimate, Values
from paramfilter.nodes.inner_check import InnerShift, shift_of_mean, why_unchecked
from paramfilter.nodes.reading import Cloud, read, read_in_trace
from paramfilter.nodes.replay import LEAST_PER_PARAMETER, log_likelihood_at
from paramfilter.nodes.state import NodeState
from paramfilter.numerics.weights import at_levels
from paramfilter.tracing import is_traced, numbers
from paramfilter.types import KeyArray, Theta

if TYPE_CHECKING:
    from paramfilter.nodes.filter import NodeEngine


class NodePosterior(Posterior):
    """Posterior of the parameters, read from weighted nodes.

    Inside a trace it is read without looking back; outside, in the best way there is (see `reading`).
    """

    engine: NodeEngine
    state: NodeState

    @cached_property
    def cloud(self) -> Cloud:
        """The weighted points that all answers come from."""
        return read(self.engine, self.state)

    @property
    def _points(self) -> tuple[Mapping[str, Values], Values]:
        if is_traced(self.state):
            return read_in_trace(self.engine, self.state)
        return self.cloud.theta, self.cloud.weights

    def _means_and_sds(self) -> tuple[dict[str, Values], dict[str, Values]]:
        return self._moments

    @cached_property
    def _moments(self) -> tuple[dict[str, Values], dict[str, Values]]:
        theta, weights = self._points
        xp, means = numbers(self.state), _averages(theta, weights)
        variances = _averages({name: (leaf - means[name]) ** 2 for name, leaf in theta.items()}, weights)
        return means, {name: xp.asarray(xp.sqrt(leaf)) for name, leaf in variances.items()}

    def error(self) -> ErrorEstimate:
        """Return the estimated error of each posterior mean, in posterior standard deviations.

        It covers the number of nodes, surfaces, rounding, and an inner filter that is approximate. The last is
        measured for states of one or two numbers, unless their moves are too narrow for a grid. Where a part was not
        measured, the values are NaN, and `error().not_measured` gives the reason.
        """
        shift = self.shift_by_inner
        error = np.sqrt(self.cloud.error**2 + np.nan_to_num(shift.sds) ** 2)
        return self._error_of(error, self._why_too_few or shift.not_measured)

    def error_so_far(self) -> ErrorEstimate:
        """Return the same without running a check of an approximate inner filter."""
        return self._error_of(self.cloud.error, self._why_too_few or why_unchecked(self.engine.inner))

    @property
    def _why_too_few(self) -> str:
        """Return why weights do not tell the error, if few nodes have all weight."""
        size, dimension = 1.0 / np.sum(self.cloud.weights**2), self.engine.model.parameters.dimension
        is_enough = size >= LEAST_PER_PARAMETER * dimension
        return "" if is_enough else f"only {size:.0f} nodes are effective, which is too few for {dimension} parameters"

    def _error_of(self, error: Float[np.ndarray, " param"], not_measured: str) -> ErrorEstimate:
        parameters = self.engine.model.parameters
        measured = {name: np.asarray(np.max(error[parameters.slices[name]])) for name in parameters.names}
        return ErrorEstimate(measured, not_measured)

    @cached_property
    def shift_by_inner(self) -> InnerShift:
        """How far the error of the inner filter moves the mean of each coordinate."""
        return shift_of_mean(self.engine, self.state, self.cloud.z, self.cloud.weights)

    def _quantiles(self, levels: Float[np.ndarray, "..."]) -> dict[str, Values]:
        theta, weights = self._points
        return {name: _quantiles(leaf, weights, levels) for name, leaf in theta.items()}

    def _draws(self, key: KeyArray, num_draws: int) -> dict[str, Values]:
        theta, weights = self._points
        xp = numbers(theta, weights, key)
        chosen = at_levels(weights, (xp.arange(num_draws) + xp.asarray(jax.random.uniform(key))) / num_draws)
        return {name: leaf[chosen] for name, leaf in theta.items()}

    def log_prob(self, theta: Theta) -> Float[Values, ""]:
        """Return the log density at theta, on the natural scale; while data are kept, as exact as the inner filter."""
        parameters = self.engine.model.parameters
        z = parameters.unconstrain(theta)
        own = self.state.kept.prior.log_density(parameters, z[None])[0]
        log_prior = own - parameters.log_volume(z)
        if is_traced((self.state, z)):
            log_likelihood = log_likelihood_at(self.engine, z[None], self.state.kept, self.state.time).value[0]
            return log_prior + log_likelihood - self.state.nodes.log_normalizer
        if self.engine.can_replay(int(self.state.time)):
            found = self.engine.compiled(log_likelihood_at)(z[None], self.state.kept, self.state.time)
            log_likelihood = found.value[0]
        else:
            surface = self.cloud.surface
            assert surface is not None  # without the data it was fitted in any case
            log_likelihood = surface.at(np.asarray(z, np.float64)[None])[0][0] + float(self.state.nodes.offset.value)
        return np.asarray(log_prior + log_likelihood - self.cloud.log_normalizer, jnp.result_type(float))


def _averages(values: Mapping[str, Values], weights: Values) -> dict[str, Values]:
    xp = numbers(values, weights)
    # A point without weight may hold anything, also NaN.
    rows = {name: xp.where(weights.reshape(-1, *[1] * (leaf.ndim - 1)) > 0, leaf, 0.0) for name, leaf in values.items()}
    return {name: xp.asarray(xp.tensordot(weights, leaf, axes=1)) for name, leaf in rows.items()}


def _quantiles(values: Values, weights: Values, levels: Float[np.ndarray, "..."]) -> Values:
    """Return weighted quantiles over the first axis, for each component."""
    xp = numbers(values, weights)
    flat = values.reshape(len(values), -1)
    found = []
    for column in flat.T:
        order = xp.argsort(column)
        cumulative = xp.cumsum(weights[order])
        # A point stands in the middle of its weight, so that the median of two equal ones lies between them.
        found.append(xp.interp(levels, (cumulative - 0.5 * weights[order]) / cumulative[-1], column[order]))
    return xp.reshape(xp.stack(found, axis=-1), (*np.shape(levels), *values.shape[1:]))
