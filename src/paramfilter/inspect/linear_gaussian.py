"""A model that is linear and Gaussian given theta, read as matrices.

    x_t = A x_{t-1} + b + N(0, Q),    y_t = H x_t + d + N(0, R),    x_0 ~ N(m_0, P_0),

each matrix any function of theta and of the inputs. They are read off the user's own functions: the mean of
`transition(theta, x, inputs)` is A x + b, so A is its Jacobian and b its value at zero.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float

from paramfilter import distributions
from paramfilter.errors import ModelError
from paramfilter.gaussian import Gaussian, gaussian_of
from paramfilter.inspect.affine import Affinity, affinity
from paramfilter.inspect.once import once_per_model
from paramfilter.inspect.probe import probe, trial
from paramfilter.model import StateSpaceModel
from paramfilter.types import Inputs, State, Theta

NUM_PROBES = 8
PROBE_REACH = 10.0
NUM_TRIED = 3
"""Typical inputs at which a model is tried."""
LINEARITY_TOLERANCE = 1e-6
"""Share of the size of the mean by which it may miss a straight line: rounding of a model written in float32."""


@dataclass(frozen=True, eq=False)
class LinearModel:
    """A model whose distributions are read as matrices, with its state laid out as a vector.

    Args:
        model: The model.
        state_size: The number of components of one state.
        to_state: From a vector of components to a state as the model knows it.
        asker: Who asks, for messages.
        otherwise: What to use instead.
    """

    model: StateSpaceModel
    state_size: int
    to_state: Callable[[Float[Array, " state"]], State]
    asker: str
    otherwise: str

    def initial(self, theta: Theta, inputs: Inputs) -> Gaussian:
        """Return the distribution of x_0."""
        return self._gaussian(self.model.initial(theta, inputs), "initial")

    def move(self, theta: Theta, inputs: Inputs) -> dict[str, Array]:
        """Return A, b and Q."""
        slope, noise = self._affine("transition", theta, inputs)
        return {"A": slope, "b": noise.mean, "Q": noise.covariance}

    def look(self, theta: Theta, inputs: Inputs) -> dict[str, Array]:
        """Return H, d and R; of R the deviations only, if the components of y are independent."""
        slope, noise = self._affine("observation", theta, inputs)
        return {"H": slope, "d": noise.mean, "R": noise.scale if noise.is_diagonal else noise.covariance}

    def refuse_nonlinear(
        self, initial_inputs: Inputs, inputs: Iterable[Inputs], parts: tuple[str, ...] = ("transition", "observation")
    ) -> None:
        """Read off the programs of mean and scale whether one is linear in x and the other free of x.

        What cannot be read, such as a loop, is compared with its straight line at draws from the prior and at states
        far and near.
        """
        inputs = list(inputs)
        unknown = []
        for part in parts:
            mean, scale = self._affinities(part, inputs[0])
            if Affinity.BENT in (mean, scale):
                self._refuse(part, mean is Affinity.BENT)
            if mean is Affinity.UNKNOWN or scale is not Affinity.FREE:
                unknown.append(part)
        if unknown:
            self._compare(initial_inputs, inputs, tuple(unknown))

    def _affinities(self, part: str, inputs: Inputs) -> tuple[Affinity, Affinity]:
        """Return how mean and scale depend on x; a scale that is affine in x is bent for a Gaussian."""

        def of(z, x, inputs):
            law = self._law(part, self.model.parameters.constrain(z), x, inputs)
            return law.mean, law.scale

        mean, scale = affinity(of, 1)(self.model.parameters.prior_draws[0], np.zeros(self.state_size), inputs)
        return mean, Affinity.BENT if scale is Affinity.AFFINE else scale

    def _refuse(self, part: str, is_mean: bool) -> NoReturn:
        cause = "its mean is not linear in x" if is_mean else "its scale depends on x"
        raise ModelError(
            f"{self.asker} needs a model that is linear and Gaussian given theta, but in {part} {cause}; "
            f"{self.otherwise}"
        )

    def _compare(self, initial_inputs: Inputs, inputs: list[Inputs], parts: tuple[str, ...]) -> None:
        # cos(probe + state^2): in all directions, without a generator to compile; lengths from 1 to PROBE_REACH
        angles = np.arange(NUM_PROBES)[:, None] + np.arange(1, self.state_size + 1) ** 2
        directions = np.cos(angles) * np.geomspace(1.0, PROBE_REACH, NUM_PROBES)[:, None]
        at_probes = jax.jit(jax.vmap(functools.partial(self._misses, parts), in_axes=(0, 0, None, None)))
        precision = jnp.result_type(float)
        probes = directions.astype(precision), self.model.parameters.prior_draws[:NUM_PROBES].astype(precision)
        for inputs_now in inputs:
            found = jax.device_get(at_probes(*probes, initial_inputs, inputs_now))
            for part, (bent, uneven) in found.items():
                if np.any(bent) or np.any(uneven):
                    self._refuse(part, bool(np.any(bent)))

    def _misses(
        self, parts: tuple[str, ...], direction, z, initial_inputs, inputs
    ) -> dict[str, tuple[Bool[Array, ""], Bool[Array, ""]]]:
        theta = self.model.parameters.constrain(z)
        initial = self.initial(theta, initial_inputs)
        size = jnp.max(jnp.abs(initial.mean)) + jnp.sqrt(jnp.max(jnp.diagonal(initial.covariance)))
        x = jnp.maximum(size, 1.0) * direction
        found = {}
        for part in parts:
            slope, noise = self._affine(part, theta, inputs)
            truth = self._law(part, theta, x, inputs)
            straight, unit = slope @ x + noise.mean, jnp.max(jnp.abs(noise.scale))
            bent = _differ(truth.mean, straight, unit + jnp.max(jnp.abs(straight)))
            found[part] = (bent, _differ(truth.scale, noise.scale, unit))
        return found

    def _affine(self, part: str, theta: Theta, inputs: Inputs) -> tuple[Float[Array, "out state"], Gaussian]:
        """Return the slope of the mean, and the distribution at x = 0."""
        law = lambda x: self._law(part, theta, x, inputs)
        origin = jnp.zeros(self.state_size)
        return jax.jacfwd(lambda x: law(x).mean)(origin), law(origin)

    def _law(self, part: str, theta: Theta, x: Float[Array, " state"], inputs: Inputs) -> Gaussian:
        return self._gaussian(getattr(self.model, part)(theta, self.to_state(x), inputs), part)

    def _gaussian(self, tree: object, part: str) -> Gaussian:
        gaussian = gaussian_of(tree)
        if gaussian is None:
            raise ModelError(
                f"{self.asker} needs Gaussian laws (Normal or MultivariateNormal), but {part} returns {_name(tree)}; "
                f"{self.otherwise}"
            )
        return Gaussian(jnp.asarray(gaussian.mean, float), jnp.asarray(gaussian.scale, float))


def linear_model(
    model: StateSpaceModel, asker: str, otherwise: str, parts: tuple[str, ...] = ("transition", "observation")
) -> LinearModel:
    """Read a model's distributions as matrices, or raise `ModelError` saying which of these parts bends."""
    vector, to_state = ravel_pytree(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), probe(model).x))
    linear = LinearModel(model, vector.size, to_state, asker, otherwise)
    with jax.enable_x64(True):
        num_tried = 1 if model.example_inputs is None else NUM_TRIED
        inputs = [model.inputs_at(np.array(time)) for time in range(num_tried)]
        linear.refuse_nonlinear(model.example_inputs, inputs, parts)
    return linear


@once_per_model
def observed_linearly(model: StateSpaceModel) -> LinearModel | None:
    """Return the observation of a model as matrices, if its moves are Gaussian and its observation is linear too."""
    steps, is_gaussian = trial(model), []

    def look(z, x, inputs):
        is_gaussian.append(gaussian_of(model.transition(model.parameters.constrain(z), x, inputs)) is not None)

    jax.eval_shape(look, *jax.tree.map(lambda leaf: leaf[0], (steps.z, steps.datum.x_prev, steps.datum.inputs)))
    if not is_gaussian[0]:
        return None
    try:
        return linear_model(model, "", "", ("observation",))
    except ModelError:
        return None


def _name(tree: object) -> str:
    leaves = jax.tree.leaves(tree, is_leaf=distributions.is_distribution)
    return ", ".join(sorted({type(leaf).__name__ for leaf in leaves}))


def _differ(first: Array, second: Array, unit: Float[Array, ""]) -> Bool[Array, ""]:
    # written so that NaN differs from everything
    return ~(jnp.max(jnp.abs(first - second)) <= LINEARITY_TOLERANCE * unit)
