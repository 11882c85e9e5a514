"""A grid that goes where the state is: near exact in one and two dimensions, and dear.

    p(x_t = g_k | y_1..y_t)  ~  p(y_t | g_k) sum_j p(g_k | h_j) p(x_{t-1} = h_j | y_1..y_{t-1})

h_j are the points of the last grid and g_k those of the next, which lies evenly around what an assumed density filter
finds. Each step takes the square of the number of points, so this is what other filters are checked by.

Points that lie far apart miss moves that are narrow. By Poisson's formula, a sum over points h apart misses a share of
at most 2 exp(-2 pi^2 (s / h)^2) of a Gaussian with standard deviation s; `missed` adds these shares up.

R. Bucy and K. Senne, Digital synthesis of non-linear filters, Automatica 7 (1971).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from paramfilter.errors import ModelError
from paramfilter.model import StateSpaceModel
from paramfilter.nodes.inner.assumed_density import AssumedDensity, at_points, moments_of
from paramfilter.nodes.inner.base import Constants, InnerFilter, InnerState, nodes_last
from paramfilter.nodes.inner.forecast import Forecast
from paramfilter.numerics.small_matrices import apply, cholesky, product, solve_lower
from paramfilter.types import Inputs, KeyArray, Observation, State, Theta

POINTS_PER_AXIS = {1: 81, 2: 17}
REACH = {1: 6.0, 2: 4.5}
"""Standard deviations that a grid goes out to, by the number of dimensions."""


@dataclass(frozen=True, eq=False)
class MovingGrid(InnerFilter):
    """The log probability of each point of a grid at each node, and the filter that places the grid."""

    guide: AssumedDensity
    ticks: Float[np.ndarray, "point state"]

    @classmethod
    def bind(cls, model: StateSpaceModel) -> MovingGrid:
        """Fit a model that an assumed density filter takes, with a state of at most two numbers."""
        return cls.around(AssumedDensity.bind(model))

    @classmethod
    def around(cls, guide: AssumedDensity) -> MovingGrid:
        """Place the grid by a filter that is bound to a model already."""
        dimension = guide.points.shape[1]
        if dimension not in POINTS_PER_AXIS:
            raise ModelError(f"MovingGrid takes a state of one or two numbers, got {dimension}.")
        axis = np.linspace(-REACH[dimension], REACH[dimension], POINTS_PER_AXIS[dimension])
        return cls(guide.model, guide, np.array(list(itertools.product(axis, repeat=dimension))))

    @property
    def name(self) -> str:
        return f"MovingGrid({len(self.ticks)} points)"

    @property
    def num_moves(self) -> int:
        """Moves from point to point that a step takes at each node."""
        return len(self.ticks) ** 2

    def prepare(self, theta: Theta) -> Constants:
        return {"guide": self.guide.prepare(theta), "theta": theta}

    def start(self, theta: Theta, inputs: Inputs) -> InnerState:
        guide = self.guide.start(theta, inputs)
        points = guide["mean"][:, None] + guide["scale"] @ self.ticks.T
        height = lambda vector: self.model.initial_log_prob(theta, self.guide.to_state(vector), inputs)
        log_mass = jax.nn.log_softmax(jax.vmap(height, in_axes=-1)(points))
        return {"guide": guide, "points": points, "log_mass": log_mass, "missed": jnp.zeros_like(log_mass[0])}

    def step(
        self, constants: Constants, x: InnerState, y: Observation, inputs: Inputs
    ) -> tuple[InnerState, Float[Array, " node"]]:
        theta, to_state = constants["theta"], self.guide.to_state
        guide, _ = self.guide.step(constants["guide"], x["guide"], y, inputs)
        points = self._points(guide)

        def move(theta, before, after):
            return self.model.transition_log_prob(theta, to_state(before), to_state(after), inputs)

        from_all = jax.vmap(move, in_axes=(None, -1, None))
        moves = nodes_last(jax.vmap(from_all, in_axes=(None, None, -1)))(theta, x["points"], points)
        look = lambda theta, vector: self.model.observation_log_prob(theta, to_state(vector), y, inputs)
        predicted = jax.nn.logsumexp(moves + x["log_mass"], axis=1)
        log_mass, total = _normalised(predicted + at_points(look)(theta, points))
        missed = x["missed"] + self._missed(theta, x["guide"], inputs)
        found = {"guide": guide, "points": points, "log_mass": log_mass, "missed": missed}
        return found, total + self._log_cell(guide)

    def _missed(self, theta: Theta, guide: InnerState, inputs: Inputs) -> Float[Array, " node"]:
        """Return at most which share of a move from the last grid is missed, or a little more."""

        def moved(theta, vector):
            mean, covariance = moments_of(self.model.transition(theta, self.guide.to_state(vector), inputs))
            return mean, (mean, covariance)

        slopes, (_, covariance) = nodes_last(jax.jacfwd(moved, argnums=1, has_aux=True))(theta, guide["mean"])
        # Neighbours on the grid, in standard deviations of the move from one of them.
        apart = self._spacing * solve_lower(cholesky(covariance)[:, :, None], product(slopes, guide["scale"]))
        return 2 * jnp.exp(-2 * math.pi**2 / jnp.sum(apart**2, axis=(0, 1)))

    def _points(self, guide: InnerState) -> Float[Array, "state point node"]:
        ticks = jnp.asarray(self.ticks).T[:, :, None]
        return guide["mean"][:, None] + apply(guide["scale"][:, :, None], ticks)

    def _log_cell(self, guide: InnerState) -> Float[Array, " node"]:
        """Return the log of the space that each point stands for."""
        size = self.ticks.shape[1]
        start = jnp.full((), size * math.log(self._spacing))
        return sum((jnp.log(guide["scale"][i, i]) for i in range(size)), start=start)

    @property
    def _spacing(self) -> float:
        size = self.ticks.shape[1]
        return 2 * REACH[size] / (POINTS_PER_AXIS[size] - 1)

    def forecast(self, constants: Constants, x: InnerState, y: Observation, inputs: Inputs) -> Forecast:
        return self.guide.forecast(constants["guide"], x["guide"], y, inputs)

    def moments(self, x: InnerState) -> tuple[State, State]:
        mass = jnp.exp(x["log_mass"])
        mean = jnp.sum(mass * x["points"], axis=1)
        variance = jnp.sum(mass * (x["points"] - mean[:, None]) ** 2, axis=1)
        to_states = jax.vmap(self.guide.to_state, in_axes=-1)
        return to_states(mean), to_states(variance)

    def sample(self, key: KeyArray, x: InnerState) -> State:
        return self.guide.to_state(x["points"][:, jax.random.categorical(key, x["log_mass"])])


def _normalised(log_values: Float[Array, "point node"]) -> tuple[Float[Array, "point node"], Float[Array, " node"]]:
    """Return log values that sum to one over the points, and the log of what they summed to."""
    total = jax.nn.logsumexp(log_values, axis=0)
    return log_values - total, total
