"""The filter of dynamic generalized linear models: a linear Gaussian state, observed through one linear predictor.

    x_t = A x_{t-1} + b + N(0, Q)        moves as in the Kalman filter
    y_t ~ p(y | eta_t),   eta_t = u'x_t   counts with a log link, heavy tails, ...

1. The prediction N(m, P) of x_t gives that of eta_t: N(u'm, u'P u).
2. The moments of eta_t given y_t come from quadrature in one dimension (`assumed_density`), whatever the size of x.
3. The rest of x_t follows by regression on eta_t, with gain K = P u / u'P u:
   m + K (E[eta | y] - u'm) and P + K K' (Var[eta | y] - u'P u).

Counts skew the state. A vector v holds its third cumulants, taken to be v_i v_j v_k: a move turns v into A v, and an
observation into v + K (c - u'v), where c is the cube root of the third cumulant of eta given y. Without v the log
likelihood of 100 counts misses by up to 1.2 nats, with it by as much as that of `AssumedDensity`, which takes four
times as long in two dimensions (docs/decisions/0039-counts-behind-a-linear-predictor.md).

The direction u is the gradient of the mean of y at x = 0, scaled to length 1, so the link function does not matter.

M. West, P. J. Harrison and H. S. Migon, Dynamic generalized linear models and Bayesian forecasting, 1985, which takes
a conjugate distribution of eta in place of the Gaussian.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from paramfilter import distributions
from paramfilter.errors import ModelError
from paramfilter.inspect.linear_gaussian import LinearModel, linear_model
from paramfilter.inspect.probe import trial
from paramfilter.model import StateSpaceModel
from paramfilter.nodes.inner.assumed_density import AssumedDensity, mean_and_variance
from paramfilter.nodes.inner.base import Constants, InnerState, nodes_last
from paramfilter.nodes.inner.bending import MOST_SKEW, Shape
from paramfilter.nodes.inner.forecast import Forecast
from paramfilter.nodes.inner.linear_moves import LinearMoves
from paramfilter.nodes.inner.quadrature import normal_rule
from paramfilter.numerics.kalman import joseph
from paramfilter.numerics.small_matrices import apply, dot
from paramfilter.types import Inputs, Observation, Theta

FEWEST_DIMENSIONS = 2
"""Of the state. In one dimension `AssumedDensity` costs the same and keeps the skewness of the state."""
TOLERANCE = 1e-5
"""Share of log density, mean and variance by which an observation may depend on x beyond eta: rounding of the model."""
LEAST_VARIANCE = 1e-12
"""Of eta, below which an observation is taken to say nothing about x."""


@dataclass(frozen=True, eq=False)
class LinearPredictor(LinearMoves):
    """A mean, a covariance and a vector of skewness at each node.

    Args:
        line: The filter that updates eta; its theta is {"theta": ..., "direction": u}.
    """

    line: AssumedDensity

    @classmethod
    def bind(cls, model: StateSpaceModel) -> LinearPredictor:
        """Fit a model, or raise `ModelError` if its moves bend or y depends on more than one linear predictor."""
        linear = linear_model(model, "LinearPredictor", "use AssumedDensity instead.", parts=("transition",))
        if linear.state_size < FEWEST_DIMENSIONS:
            raise ModelError("LinearPredictor needs a state of two or more numbers; use AssumedDensity instead.")
        _refuse_more_predictors(model, linear)

        def look(at, eta, inputs):
            return model.observation(at["theta"], linear.to_state(at["direction"] * eta), inputs)

        on_line = StateSpaceModel(model.prior, model.initial, model.transition, look, model.name, model.example_inputs)
        points, weights = (part.astype(jnp.result_type(float)) for part in normal_rule(1))
        return cls(model, linear, AssumedDensity(on_line, lambda vector: vector[0], points, weights))

    def prepare(self, theta: Theta) -> Constants:
        at = None if self.model.example_inputs is not None else nodes_last(lambda one: self._at(one, None))(theta)
        return {"theta": theta, "at": at}

    def _at(self, theta: Theta, inputs: Inputs) -> dict[str, Array]:
        """Return A, b, Q and the direction u of one theta."""
        return self.linear.move(theta, inputs) | {"direction": direction_of(self.model, self.linear, theta, inputs)}

    def start(self, theta: Theta, inputs: Inputs) -> InnerState:
        x = super().start(theta, inputs)
        return {**x, "skew": jnp.zeros_like(x["mean"])}

    def step(
        self, constants: Constants, x: InnerState, y: Observation, inputs: Inputs
    ) -> tuple[InnerState, Float[Array, " node"]]:
        x, at = self._predicted(constants, x, inputs)
        direction, spread = at["direction"], apply(x["covariance"], at["direction"])
        mean, scale, shape = on_line(x, direction)
        found, log_likelihood = self.line.observe(at, mean, scale, shape, y, inputs)
        gain = spread / scale[0, 0] ** 2
        shift = found["mean"][0] - mean[0]
        cube_root = jnp.cbrt(found["shape"]["skew"][0, 0, 0]) * found["scale"][0, 0]
        new = {
            "mean": x["mean"] + gain * shift,
            "covariance": joseph(x["covariance"], gain, direction, found["scale"][0, 0]),
            "skew": x["skew"] + gain * (cube_root - dot(direction, x["skew"])),
        }
        return new, log_likelihood

    def _predicted(self, constants: Constants, x: InnerState, inputs: Inputs) -> tuple[InnerState, dict[str, Any]]:
        """Return the prediction of the next state, and what the filter of eta needs."""
        at = constants["at"]
        if at is None:
            at = nodes_last(lambda theta: self._at(theta, inputs))(constants["theta"])
        predicted = {**self.moved(at, x), "skew": apply(at["A"], x["skew"])}
        return predicted, {"theta": constants["theta"], "direction": at["direction"]}

    def forecast(self, constants: Constants, x: InnerState, y: Observation, inputs: Inputs) -> Forecast:
        x, at = self._predicted(constants, x, inputs)
        return self.line.foretell(at, *on_line(x, at["direction"]), y, inputs)


def on_line(x: InnerState, direction: Float[Array, "state node"]) -> tuple[Any, Any, Shape]:
    """Return mean, scale and shape of eta."""
    scale = jnp.sqrt(jnp.maximum(dot(direction, apply(x["covariance"], direction)), LEAST_VARIANCE))
    skew = jnp.clip((dot(direction, x["skew"]) / scale) ** 3, -MOST_SKEW, MOST_SKEW)
    shape = {"skew": skew[None, None, None], "excess": jnp.zeros_like(skew)[None]}
    return dot(direction, x["mean"])[None], scale[None, None], shape


def direction_of(model: StateSpaceModel, linear: LinearModel, theta: Theta, inputs: Inputs) -> Float[Array, " state"]:
    """Return the direction in which the mean of the first component of y changes at x = 0, of length 1."""

    def mean_of(vector):
        return mean_and_variance(model.observation(theta, linear.to_state(vector), inputs))[0][0]

    gradient = jax.grad(mean_of)(jnp.zeros(linear.state_size))
    length = jnp.sqrt(jnp.sum(gradient**2))
    return jnp.where(length > 0, gradient / jnp.where(length > 0, length, 1.0), 0.0)


def _refuse_more_predictors(model: StateSpaceModel, linear: LinearModel) -> None:
    """Compare observations of trial states with those of their projections on u."""
    steps = trial(model)

    def differences(z, datum):
        theta = model.parameters.constrain(z)
        x = distributions.ravel(datum.x)
        direction = direction_of(model, linear, theta, datum.inputs)
        states = linear.to_state(x), linear.to_state(direction * (direction @ x))
        laws = [model.observation(theta, state, datum.inputs) for state in states]
        moments = [jnp.concatenate(mean_and_variance(law)) for law in laws]
        densities = [distributions.log_prob_where_observed(law, datum.y) for law in laws]
        apart = jnp.max(jnp.abs(moments[0] - moments[1]) / (jnp.abs(moments[0]) + 1.0))
        return apart, jnp.abs(densities[0] - densities[1]) / (jnp.abs(densities[0]) + 1.0)

    with jax.enable_x64(True):  # far out, rounding of eta changes a log rate of thousands
        precise = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), (steps.z, steps.datum))
        found = np.asarray(jax.jit(jax.vmap(differences))(*precise))
    if not np.max(np.nan_to_num(found, posinf=0.0, nan=0.0)) < TOLERANCE:
        raise ModelError(
            "LinearPredictor needs y to depend on one linear combination of x; use AssumedDensity instead."
        )
