"""The Kalman filter of a model that is linear and Gaussian given theta, one step at a time.

    x_t = A x_{t-1} + b + N(0, Q),    y_t = H x_t + d + N(0, R),    x_0 ~ N(m_0, P_0),

each matrix any function of theta and of the inputs. They are read off the user's own functions: the mean of
`transition(theta, x, inputs)` is A x + b, so A is its Jacobian and b its value at zero.

The components of an observation are absorbed one after the other, whitened first if their noises are correlated. This
is the same filter without a matrix to invert, and a missing component is one that is not absorbed.

R. E. Kalman, A new approach to linear filtering and prediction problems, 1960; sequential processing: A. E. Bryson and
Y.-C. Ho, Applied Optimal Control, 1975.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from paramfilter import distributions
from paramfilter.errors import ModelError
from paramfilter.gaussian import Gaussian, gaussian_of
from paramfilter.model import StateSpaceModel
from paramfilter.types import Inputs, State, Theta

NUM_PROBES = 8
PROBE_REACH = 10.0
LINEARITY_TOLERANCE = 1e-6
"""Share of the size of the mean by which it may miss a straight line: rounding of a model written in float32."""
FEW_COMPONENTS = 4
"""Components of an observation that are absorbed without a loop: a loop of one turn costs more than the turn."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Affine:
    """N(slope x + intercept, noise)."""

    slope: Float[Array, "obs state"]
    noise: Gaussian

    @property
    def intercept(self) -> Float[Array, " obs"]:
        """The mean at x = 0."""
        return self.noise.mean


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

    def transition(self, theta: Theta, inputs: Inputs) -> Affine:
        """Return A, b and Q."""
        return self._affine(lambda x: self.model.transition(theta, self.to_state(x), inputs), "transition")

    def observation(self, theta: Theta, inputs: Inputs) -> Affine:
        """Return H, d and R."""
        return self._affine(lambda x: self.model.observation(theta, self.to_state(x), inputs), "observation")

    def refuse_nonlinear(
        self, initial_inputs: Inputs, inputs: Iterable[Inputs], parts: tuple[str, ...] = ("transition", "observation")
    ) -> None:
        """Compare mean and scale with their straight lines, at draws from the prior and states far and near."""
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
                    cause = "its mean is not linear in x" if np.any(bent) else "its scale depends on x"
                    raise ModelError(
                        f"{self.asker} needs a model that is linear and Gaussian given theta, but in {part} {cause}; "
                        f"{self.otherwise}"
                    )

    def _misses(
        self, parts: tuple[str, ...], direction, z, initial_inputs, inputs
    ) -> dict[str, tuple[Bool[Array, ""], Bool[Array, ""]]]:
        theta = self.model.parameters.constrain(z)
        initial = self.initial(theta, initial_inputs)
        size = jnp.max(jnp.abs(initial.mean)) + jnp.sqrt(jnp.max(jnp.diagonal(initial.covariance)))
        x = jnp.maximum(size, 1.0) * direction
        found = {}
        for part in parts:
            line = getattr(self, part)(theta, inputs)
            truth = self._gaussian(getattr(self.model, part)(theta, self.to_state(x), inputs), part)
            straight, scale = line.slope @ x + line.intercept, line.noise.scale
            unit = jnp.max(jnp.abs(scale))
            bent = _differ(truth.mean, straight, unit + jnp.max(jnp.abs(straight)))
            found[part] = (bent, _differ(truth.scale, scale, unit))
        return found

    def _affine(self, build: Callable[[Float[Array, " state"]], object], part: str) -> Affine:
        origin = jnp.zeros(self.state_size)
        slope = jax.jacfwd(lambda x: self._gaussian(build(x), part).mean)(origin)
        return Affine(slope, self._gaussian(build(origin), part))

    def _gaussian(self, tree: object, part: str) -> Gaussian:
        gaussian = gaussian_of(tree)
        if gaussian is None:
            raise ModelError(
                f"{self.asker} needs Gaussian laws (Normal or MultivariateNormal), but {part} returns {_name(tree)}; "
                f"{self.otherwise}"
            )
        return Gaussian(jnp.asarray(gaussian.mean, float), jnp.asarray(gaussian.scale, float))


def through(
    mean: Float[Array, " state"], covariance: Float[Array, "state state"], law: Affine
) -> tuple[Float[Array, " obs"], Float[Array, "obs obs"]]:
    """Return mean and covariance of what follows from a state: the next one, or what is seen of it."""
    return law.slope @ mean + law.intercept, law.slope @ covariance @ law.slope.T + law.noise.covariance


def absorb(
    mean: Float[Array, " state"], covariance: Float[Array, "state state"], look: Affine, y: Float[Array, " obs"]
) -> tuple[Float[Array, " state"], Float[Array, "state state"], Float[Array, ""]]:
    """Condition on one observation, a component at a time; return the log density of what was observed as well."""
    observed = ~jnp.isnan(y)
    target = jnp.where(observed, y - look.intercept, 0.0)
    slope = jnp.where(observed[:, None], look.slope, 0.0)
    if look.noise.is_diagonal:
        deviations, log_scale = look.noise.scale, jnp.zeros(())
    else:
        noise = look.noise.observed_only(observed)
        target, slope = noise.whiten(target), noise.whiten(slope)
        deviations = jnp.ones_like(target)
        log_scale = jnp.sum(jnp.log(jnp.diagonal(noise.scale)))

    def component(carry, row):
        mean, covariance, log_likelihood = carry
        target, slope, deviation, is_observed = row
        spread = covariance @ slope
        variance = jnp.where(is_observed, slope @ spread + deviation**2, 1.0)
        residual = target - slope @ mean
        gain = spread / variance
        # Joseph's form: positive semidefinite whatever the rounding
        shrink = jnp.eye(len(mean)) - jnp.outer(gain, slope)
        updated = shrink @ covariance @ shrink.T + jnp.outer(gain, gain) * deviation**2
        score = -0.5 * (jnp.log(2 * jnp.pi * variance) + residual**2 / variance)
        return (mean + gain * residual, updated, log_likelihood + jnp.where(is_observed, score, 0.0)), None

    start = (mean, covariance, -log_scale)
    rows = (target, slope, deviations, observed)
    return jax.lax.scan(component, start, rows, unroll=len(y) <= FEW_COMPONENTS)[0]


def _name(tree: object) -> str:
    leaves = jax.tree.leaves(tree, is_leaf=distributions.is_distribution)
    return ", ".join(sorted({type(leaf).__name__ for leaf in leaves}))


def _differ(first: Array, second: Array, unit: Float[Array, ""]) -> Bool[Array, ""]:
    # written so that NaN differs from everything
    return ~(jnp.max(jnp.abs(first - second)) <= LINEARITY_TOLERANCE * unit)
