"""The assumed density filter: what is known of the state is held as a bent Gaussian (`bending`), whatever the model.

    x_{t-1}                points x_k with weights v_k stand for it (a quadrature rule)
    x_t                    its prediction is matched by a bent Gaussian: by the means and variances of moves from x_k
    x_t given y_t          is matched again: moments of the prediction times p(y_t | x_t), integrated by the rule on
                           points around where this product is large

That place is found first: from the predicted mean by scoring steps (Fisher's information in place of the curvature, so
that each step is uphill), then by the moments at that place. A step that gains too little of what the slope promises
is halved, and nodes take as many steps as they need: one or two as a rule, about ten where the observation is much more
precise than the prediction, as after a wide `initial` or a long gap.

P. Maybeck, Stochastic Models, Estimation and Control 2 (1982), chapter 12; T. Minka, A family of algorithms for
approximate Bayesian inference (2001), chapter 3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from paramfilter import distributions
from paramfilter.errors import ModelError
from paramfilter.gaussian import gaussian_of
from paramfilter.inspect.probe import probe, require_densities, trial
from paramfilter.model import StateSpaceModel
from paramfilter.nodes.inner.base import Constants, InnerFilter, InnerState, nodes_last
from paramfilter.nodes.inner.bending import MOST_DIMENSIONS, Shape, bend, log_bent_normal, shape_of, straight
from paramfilter.nodes.inner.forecast import Forecast, forecast_of
from paramfilter.nodes.inner.quadrature import normal_rule, shifted_rules
from paramfilter.numerics.small_matrices import (
    apply,
    cholesky,
    dot,
    product,
    product_transposed,
    solve_lower,
    solve_upper,
)
from paramfilter.polynomials.monomials import MonomialBasis
from paramfilter.tracing import evaluate
from paramfilter.types import Inputs, KeyArray, Observation, State, Theta

MOST_TRIALS = 25
"""Points at which scoring may look; the most that a case needed was 19, and a Student-t reached the limit."""
LITTLE_GAIN = 0.05
"""Scoring ends if a step promises to gain fewer nats: the passes below do the rest."""
LEAST_SHARE = 0.25
"""Of the promised gain, that a step must bring. The slope alone promises twice what a parabola has."""
NUM_PASSES = 2
"""Of the quadrature: the moments of one place the points of the next."""
LONGEST_STEP = 10.0
"""Of scoring, in predicted deviations."""
NARROWEST = 1e-6
"""Share of the variance that is added, so that points never fall together."""
LEAST_FINITE = 0.5
"""Share of draws from the prior at which moves must have a mean and a variance."""
IMPOSSIBLE = -1e30
"""In place of a log density that is not a number."""


@dataclass(frozen=True, eq=False)
class AssumedDensity(InnerFilter):
    """A mean and a lower triangular scale at each node."""

    to_state: Callable[[Float[Array, " state"]], State]
    points: Float[np.ndarray, "point state"]
    point_weights: Float[np.ndarray, " point"]

    @classmethod
    def bind(cls, model: StateSpaceModel, points_per_axis: int | None = None) -> AssumedDensity:
        """Fit a model whose state is a vector of real numbers with means and variances."""
        shapes = probe(model)
        if any(not jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(shapes.x)):
            raise ModelError("an assumed density needs a state of real numbers; this one is a whole number.")
        vector, to_state = ravel_pytree(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), shapes.x))
        require_moments(model)
        points, weights = normal_rule(vector.size, points_per_axis)
        precision = jnp.result_type(float)
        return cls(model, to_state, points.astype(precision), weights.astype(precision))

    @cached_property
    def monomials(self) -> Float[np.ndarray, "monomial point"]:
        """Products of the coordinates of the rule's points: all that mean, covariance and shape are made of."""
        return np.stack([np.prod(self.points**power, axis=1) for power in self._basis.exponents])

    @property
    def name(self) -> str:
        return f"{type(self).__name__}({len(self.points)} points)"

    def start(self, theta: Theta, inputs: Inputs) -> InnerState:
        mean, variance = moments_of(self.model.initial(theta, inputs))
        return {"mean": mean, "scale": cholesky(variance), "shape": straight(len(mean))}

    def step(
        self, constants: Constants, x: InnerState, y: Observation, inputs: Inputs
    ) -> tuple[InnerState, Float[Array, " node"]]:
        predicted = self._matched(self._weights(x), *self._moved(constants, x, inputs))
        return self.observe(constants, *predicted, y, inputs)

    def observe(
        self, theta: Theta, mean: Any, scale: Any, shape: Shape, y: Observation, inputs: Inputs
    ) -> tuple[InnerState, Float[Array, " node"]]:
        """Condition a predicted state on an observation; return the log density of the observation too."""
        log_look = self._log_look(theta, y, inputs)
        center, width = self._place(theta, mean, scale, y, inputs)
        log_likelihood, found = jnp.zeros(()), shape
        for _ in range(NUM_PASSES):
            standard = solve_lower(scale[:, :, None], self._points(center - mean, width))
            # weight of a point: v_k p(x) p(y | x) / N(x; center, width), with p(x) the prediction
            log_weights = log_look(self._points(center, width)) + self._log_rule() + log_bent_normal(standard, shape)
            log_weights = jnp.where(jnp.isfinite(log_weights), log_weights, IMPOSSIBLE)
            largest = jnp.max(log_weights, axis=0)
            sums = jnp.asarray(self.monomials) @ jnp.exp(log_weights - largest)
            log_likelihood = largest + jnp.log(sums[0]) + _log_diagonal(width) - _log_diagonal(scale)
            center, width, found = self._updated(center, width, sums[1:] / sums[0])
        return {"mean": center, "scale": width, "shape": found}, log_likelihood

    def _updated(self, center: Any, width: Any, moments: Any) -> tuple[Any, Any, Shape]:
        """Return mean, scale and shape from the moments of the rule's own points u, where x = center + width u."""
        size = len(center)
        mean = moments[:size]
        raw = lambda *indices: moments[self._place_of(indices)]
        axes = range(size)
        covariance = jnp.stack([jnp.stack([raw(i, j) - mean[i] * mean[j] for j in axes]) for i in axes])
        covariance += NARROWEST * jnp.eye(size)[:, :, None]
        factor = cholesky(covariance)

        def third(i, j, k):
            around = mean[i] * raw(j, k) + mean[j] * raw(i, k) + mean[k] * raw(i, j)
            return raw(i, j, k) - around + 2 * mean[i] * mean[j] * mean[k]

        fourth = 0.0
        if size == 1:
            m = mean[0]
            fourth = raw(0, 0, 0, 0) - 4 * m * raw(0, 0, 0) + 6 * m**2 * raw(0, 0) - 3 * m**4
        shape = shape_of(third, fourth, factor)
        # product(width, factor) is a factor of the covariance of x, and lower triangular as both are
        return center + apply(width, mean), product(width, factor), shape

    def _place_of(self, indices: tuple[int, ...]) -> int:
        """Return where a product of the rule's coordinates stands among the monomials after the first."""
        return self._places[tuple(sorted(indices))]

    @cached_property
    def _places(self) -> dict[tuple[int, ...], int]:
        listed = (tuple(i for i, power in enumerate(row) for _ in range(power)) for row in self._basis.exponents)
        return {indices: number - 1 for number, indices in enumerate(listed)}

    @cached_property
    def _basis(self) -> MonomialBasis:
        size = self.points.shape[1]
        return MonomialBasis(size, 4 if size == 1 else 3 if size <= MOST_DIMENSIONS else 2)

    def _weights(self, x: InnerState) -> Any:
        shape = x["shape"]
        return jnp.asarray(self.point_weights)[:, None] * bend(jnp.asarray(self.points).T[:, :, None], shape)

    def _points(self, mean: Any, scale: Any) -> Float[Array, "state point node"]:
        return mean[:, None] + apply(scale[:, :, None], jnp.asarray(self.points).T[:, :, None])

    def _log_rule(self) -> Float[Array, "point 1"]:
        """Return the log of each point's weight over the standard normal density there."""
        return (jnp.log(self.point_weights) + 0.5 * jnp.sum(jnp.asarray(self.points) ** 2, axis=1))[:, None]

    def _moved(self, theta: Theta, x: InnerState, inputs: Inputs) -> tuple[Any, Any]:
        """Return mean and covariance of the next state from each point."""
        move = lambda theta, vector: moments_of(self.model.transition(theta, self.to_state(vector), inputs))
        return at_points(move)(theta, self._points(x["mean"], x["scale"]))

    def _log_look(self, theta: Theta, y: Observation, inputs: Inputs) -> Callable[[Any], Any]:
        look = lambda theta, vector: self.model.observation_log_prob(theta, self.to_state(vector), y, inputs)
        return lambda points: at_points(look)(theta, points)

    def _matched(self, weights: Any, means: Any, variances: Any) -> tuple[Any, Any, Any]:
        """Return mean, scale and shape of a mixture of Gaussians over the points."""
        # Computed once, and not again for each of the sums.
        weights, means, variances = jax.lax.optimization_barrier((weights, means, variances))
        mean = jnp.stack([jnp.sum(weights * row, axis=0) for row in means])
        apart = means - mean[:, None]
        axes = range(len(means))
        entry = lambda i, j: jnp.sum(weights * (apart[i] * apart[j] + variances[i, j]), axis=0)
        covariance = jnp.stack([jnp.stack([entry(i, j) for j in axes]) for i in axes])
        scale = cholesky(covariance)

        def third(i, j, k):
            mixed = apart[i] * variances[j, k] + apart[j] * variances[i, k] + apart[k] * variances[i, j]
            return jnp.sum(weights * (apart[i] * apart[j] * apart[k] + mixed), axis=0)

        fourth = 0.0
        if len(means) == 1:
            d, q = apart[0], variances[0, 0]
            fourth = jnp.sum(weights * (d * d * (d * d + 6 * q) + 3 * q * q), axis=0)
        return mean, scale, shape_of(third, fourth, scale)

    def _place(self, theta: Theta, mean: Any, scale: Any, y: Observation, inputs: Inputs) -> Any:
        """Return center and width of a Gaussian like N(mean, scale scale') p(y | x)."""
        score = jax.vmap(self._score, in_axes=(-1, -1, -1, -1, None, None), out_axes=-1)
        identity = jnp.broadcast_to(jnp.eye(len(mean), dtype=mean.dtype)[:, :, None], scale.shape)

        def look(carry):
            trials, e, uphill, height, gain, lower = carry
            trial = e + uphill
            log_likelihood, gradient, information = score(theta, trial, mean, scale, y, inputs)
            found = log_likelihood - 0.5 * dot(trial, trial)
            factor = cholesky(information + identity)
            across = solve_lower(factor, gradient - trial)
            step = solve_upper(factor, across)
            share = LONGEST_STEP / jnp.maximum(jnp.sqrt(dot(step, step)), LONGEST_STEP)
            # A node that has arrived stays, whatever the others do: its result does not depend on them.
            is_going = gain >= LITTLE_GAIN
            is_better = is_going & (found >= height + LEAST_SHARE * gain)
            rest = jnp.where(is_going, 0.5, 1.0)
            new = (trial, share * step, found, share * dot(across, across), factor)
            old = (e, rest * uphill, height, rest * gain, lower)
            return trials + 1, *(jnp.where(is_better, *pair) for pair in zip(new, old, strict=True))

        def goes_on(carry):
            trials, _, _, _, gain, _ = carry
            return (trials < MOST_TRIALS) & jnp.any(gain >= LITTLE_GAIN)

        # e are coordinates in which the prediction is N(0, I): x = mean + scale e
        zero, none = jnp.zeros_like(mean), jnp.zeros_like(mean[0])
        start = (jnp.int32(0), zero, zero, none - jnp.inf, none + 1.0, identity)
        _, e, uphill, _, gain, lower = jax.lax.while_loop(goes_on, look, start)
        center = mean + apply(scale, e + jnp.where(gain < LITTLE_GAIN, uphill, 0.0))
        if len(e) == 1:
            return center, scale / lower
        factor = solve_lower(lower[:, :, None], jnp.swapaxes(scale, 0, 1))  # of scale (lower lower')^-1 scale'
        across = jnp.swapaxes(factor, 0, 1)
        return center, cholesky(product_transposed(across, across))

    def _score(self, theta: Theta, e: Any, mean: Any, scale: Any, y: Observation, inputs: Inputs) -> Any:
        """Return value, gradient and Fisher's information of log p(y | x) at one node."""
        seen = ~jnp.isnan(distributions.ravel(y))
        law = lambda e: self.model.observation(theta, self.to_state(mean + scale @ e), inputs)
        height = lambda e: distributions.log_prob_where_observed(law(e), y)

        def location_and_log_variance(e):
            found, variance = mean_and_variance(law(e))
            return jnp.stack([found, jnp.log(variance)])

        slopes = jax.jacfwd(location_and_log_variance)(e)
        precision = jnp.exp(-location_and_log_variance(e)[1])
        rates = jnp.stack([precision, 0.5 * jnp.ones_like(precision)])
        rates = jnp.where(seen & jnp.isfinite(precision), rates, 0.0)
        slopes = jnp.where(jnp.isfinite(slopes), slopes, 0.0)
        value, gradient = jax.value_and_grad(height)(e)
        gradient = jnp.where(jnp.isfinite(gradient), gradient, 0.0)
        return value, gradient, jnp.einsum("ko,koi,koj->ij", rates, slopes, slopes)

    def forecast(self, constants: Constants, x: InnerState, y: Observation, inputs: Inputs) -> Forecast:
        predicted = self._matched(self._weights(x), *self._moved(constants, x, inputs))
        return self.foretell(constants, *predicted, y, inputs)

    def foretell(self, theta: Theta, mean: Any, scale: Any, shape: Shape, y: Observation, inputs: Inputs) -> Forecast:
        """Return the forecast of y from a predicted state."""
        points, shares = map(jnp.asarray, shifted_rules(self.points.shape[1], mean.shape[-1]))
        weights = shares * jnp.maximum(bend(points, shape), 0.0)
        weights = weights / jnp.sum(weights, axis=0)
        look = lambda theta, vector: forecast_of(self.model.observation(theta, self.to_state(vector), inputs), y)
        return at_points(look)(theta, mean[:, None] + apply(scale[:, :, None], points)).averaged(weights)

    def moments(self, x: InnerState) -> tuple[State, State]:
        to_states = jax.vmap(self.to_state, in_axes=-1)
        return to_states(x["mean"]), to_states(jnp.sum(x["scale"] ** 2, axis=1))

    def sample(self, key: KeyArray, x: InnerState) -> State:
        return self.to_state(x["mean"] + x["scale"] @ jax.random.normal(key, x["mean"].shape))


def require_moments(model: StateSpaceModel) -> None:
    """Refuse a state whose moves have no mean or no variance, as Cauchy's have none."""
    require_densities(model, "an assumed density")
    steps = trial(model)

    def moved(z, x, inputs):
        return moments_of(model.transition(model.parameters.constrain(z), x, inputs))

    found = evaluate(jax.vmap(moved), steps.z, steps.datum.x_prev, steps.datum.inputs)
    are_finite = [np.mean(np.isfinite(np.asarray(part))) for part in found]
    if min(are_finite) < LEAST_FINITE:
        raise ModelError(
            "an assumed density needs a state that moves with a mean and a variance. Use "
            "node_filter(model, inner=nodes.Particles), which takes any state."
        )


def mean_and_variance(law: distributions.DistributionTree) -> tuple[Array, Array]:
    """Return mean and variance of each component of a tree of distributions."""
    leaves = jax.tree.leaves(law, is_leaf=distributions.is_distribution)
    spread = lambda leaf, values: jnp.ravel(jnp.broadcast_to(values, leaf.shape())).astype(float)
    return (
        jnp.concatenate([spread(leaf, leaf.mean) for leaf in leaves]),
        jnp.concatenate([spread(leaf, leaf.variance) for leaf in leaves]),
    )


def moments_of(law: distributions.DistributionTree) -> tuple[Array, Array]:
    """Return mean and covariance of a tree of distributions; of those that are not Gaussian, the variances only."""
    gaussian = gaussian_of(law)
    if gaussian is not None:
        return gaussian.mean.astype(float), gaussian.covariance.astype(float)
    mean, variance = mean_and_variance(law)
    return mean, jnp.diag(variance)


def at_points(function: Callable) -> Callable:
    """Turn a function of one theta and one vector into one of all nodes, each with many vectors."""
    return nodes_last(jax.vmap(function, in_axes=(None, -1), out_axes=-1))


def _log_diagonal(scale: Any) -> Float[Array, " node"]:
    return jnp.sum(jnp.stack([jnp.log(scale[i, i]) for i in range(len(scale))]), axis=0)
