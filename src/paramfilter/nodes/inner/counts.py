"""The filter of a whole number without bound: a sum over a window of them, which follows the state.

    p(x_t = k | y_1..y_t)  ~  p(y_t | x_t = k) sum_j p(x_t = k | x_{t-1} = j) p(x_{t-1} = j | y_1..y_{t-1})

The next window goes where a Gaussian with mean and variance of the prediction, times p(y_t | x_t), is within 24 nats of
its largest value: 14 predicted deviations if the observation says little. If that is wider than the window, its numbers
are two or more apart, and each stands for its neighbors.

`missed` adds up the probability of the numbers at the ends, which is about that of all numbers beyond them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from jaxtyping import Array, Float

from paramfilter import distributions
from paramfilter.errors import ModelError
from paramfilter.inspect.probe import probe
from paramfilter.model import StateSpaceModel
from paramfilter.nodes.inner.assumed_density import mean_and_variance, require_moments
from paramfilter.nodes.inner.base import Constants, InnerFilter, InnerState, nodes_last
from paramfilter.nodes.inner.forecast import Forecast, forecast_of
from paramfilter.types import Inputs, KeyArray, Observation, State, Theta

WIDTH = 48
"""Numbers in a window: a deviation of up to 3.4 has every number, a larger one every second or third."""
PILOT = np.linspace(-12.0, 12.0, 49)
"""Predicted deviations at which the observation is looked at."""
LEAST_SHARE = 24.0
"""Nats below the largest value at which a window ends."""
EXTREME = 5.0
"""Normal quantiles between which a distribution is interpolated from one node to another."""

Look = Callable[[Float[Array, " point"]], Float[Array, " point"]]


@dataclass(frozen=True, eq=False)
class Counts(InnerFilter):
    """Whole numbers and their probabilities at each node, and what was missed."""

    width: int
    low: float

    @classmethod
    def bind(cls, model: StateSpaceModel, width: int = WIDTH) -> Counts:
        """Fit a model whose state is one whole number that moves with a mean and a variance."""
        leaves = jax.tree.leaves(probe(model).x)
        if len(leaves) != 1 or leaves[0].shape != () or jnp.issubdtype(leaves[0].dtype, jnp.floating):
            raise ModelError("Counts needs a state that is one whole number.")
        require_moments(model)
        theta = model.parameters.constrain(jnp.asarray(model.parameters.prior_draws[0], jnp.result_type(float)))
        law = jax.tree.leaves(model.initial(theta, model.example_inputs), is_leaf=distributions.is_distribution)[0]
        support = distributions.support_of(law)
        return cls(model, width, -np.inf if support is None else support.low)

    def finer(self) -> Counts:
        """Return the filter that this one is checked by."""
        return replace(self, width=2 * self.width)

    @property
    def num_moves(self) -> int:
        """Moves from number to number that a step takes at each node."""
        return self.width**2

    @property
    def name(self) -> str:
        return f"Counts({self.width} numbers)"

    def start(self, theta: Theta, inputs: Inputs) -> InnerState:
        mean, variance = mean_and_variance(self.model.initial(theta, inputs))
        points, stride = self._window(mean[0], variance[0], jnp.zeros_like)
        height = jax.vmap(lambda x: self.model.initial_log_prob(theta, self._state(x), inputs))
        mass = stride * _density(height(points))
        return {"points": points, "mass": mass / jnp.sum(mass), "missed": jnp.zeros(())}

    def step(
        self, constants: Constants, x: InnerState, y: Observation, inputs: Inputs
    ) -> tuple[InnerState, Float[Array, " node"]]:
        def one(theta, x):
            look = self._look(theta, y, inputs)
            points, predicted = self._predicted(theta, x, look, inputs)
            log_look = look(points)
            largest = jnp.max(log_look)
            found = predicted * jnp.exp(log_look - largest)
            total = jnp.sum(found)
            mass = found / total
            beyond = mass[-1] + jnp.where(points[0] > self.low, mass[0], 0.0)
            return {"points": points, "mass": mass, "missed": x["missed"] + beyond}, largest + jnp.log(total)

        return nodes_last(one)(constants, x)

    def _state(self, number: Float[Array, ""]) -> State:
        leaf, structure = jax.tree.flatten(probe(self.model).x)
        return structure.unflatten([number.astype(leaf[0].dtype)])

    def _look(self, theta: Theta, y: Observation, inputs: Inputs) -> Look:
        look = jax.vmap(lambda x: self.model.observation_log_prob(theta, self._state(x), y, inputs))
        return lambda points: jnp.nan_to_num(look(points), nan=-jnp.inf, neginf=-jnp.inf)

    def _predicted(self, theta: Theta, x: InnerState, look: Look, inputs: Inputs) -> tuple[Array, Array]:
        """Return the next window and its predicted probabilities."""

        def move(before):
            law = self.model.transition(theta, self._state(before), inputs)
            mean, variance = mean_and_variance(law)
            return mean[0], variance[0]

        def log_density(before, after):
            return self.model.transition_log_prob(theta, self._state(before), self._state(after), inputs)

        mass = x["mass"]
        means, variances = (jnp.where(mass > 0, part, 0.0) for part in jax.vmap(move)(x["points"]))
        mean = mass @ means
        points, stride = self._window(mean, mass @ (variances + (means - mean) ** 2), look)
        moves = jax.vmap(lambda after: jax.vmap(lambda before: log_density(before, after))(x["points"]))(points)
        return points, stride * (_density(moves) @ mass)

    def _window(self, mean: Array, variance: Array, look: Look) -> tuple[Array, Array]:
        """Return evenly spaced numbers and their distance."""
        pilot = jnp.maximum(jnp.round(mean + jnp.sqrt(variance) * PILOT), self.low)
        heights = look(pilot) - 0.5 * (pilot - mean) ** 2 / variance
        is_in = heights > jnp.max(heights) - LEAST_SHARE
        # Out to the first point on each side that is not.
        low = jnp.min(jnp.where(is_in[1:], pilot[:-1], jnp.where(is_in[0], pilot[0], jnp.inf)))
        high = jnp.max(jnp.where(is_in[:-1], pilot[1:], jnp.where(is_in[-1], pilot[-1], -jnp.inf)))
        stride = jnp.maximum(jnp.ceil((high - low) / (self.width - 1)), 1.0)
        first = jnp.maximum(jnp.floor(0.5 * (low + high - stride * (self.width - 1))), self.low)
        return first + stride * jnp.arange(self.width), stride

    def forecast(self, constants: Constants, x: InnerState, y: Observation, inputs: Inputs) -> Forecast:
        def one(theta, x):
            points, predicted = self._predicted(theta, x, jnp.zeros_like, inputs)
            look = lambda point: forecast_of(self.model.observation(theta, self._state(point), inputs), y)
            return jax.vmap(look, out_axes=1)(points).averaged(predicted / jnp.sum(predicted))

        return nodes_last(one)(constants, x)

    def loosened(self, x: InnerState) -> InnerState:
        """Return quantiles, which are smooth in theta."""
        levels = norm.cdf(np.linspace(-EXTREME, EXTREME, self.width))
        at = lambda points, mass: jnp.interp(levels, jnp.cumsum(mass) - 0.5 * mass, points)
        return {"points": nodes_last(at)(x["points"], x["mass"]), "missed": x["missed"]}

    def tightened(self, x: InnerState) -> InnerState:
        ticks = np.linspace(-EXTREME, EXTREME, self.width)
        shares = jnp.diff(norm.cdf(np.concatenate([[-np.inf], 0.5 * (ticks[1:] + ticks[:-1]), [np.inf]])))
        mass = jnp.broadcast_to(shares.astype(x["points"].dtype)[:, None], x["points"].shape)
        return {"points": jnp.round(x["points"]), "mass": mass, "missed": x["missed"]}

    def moments(self, x: InnerState) -> tuple[State, State]:
        mean = jnp.sum(x["mass"] * x["points"], axis=0)
        variance = jnp.sum(x["mass"] * (x["points"] - mean) ** 2, axis=0)
        structure = jax.tree.structure(probe(self.model).x)
        return structure.unflatten([mean]), structure.unflatten([variance])

    def sample(self, key: KeyArray, x: InnerState) -> State:
        return self._state(x["points"][jax.random.categorical(key, jnp.log(x["mass"]))])


def _density(log_density: Array) -> Array:
    return jnp.nan_to_num(jnp.exp(log_density), nan=0.0, posinf=0.0)
