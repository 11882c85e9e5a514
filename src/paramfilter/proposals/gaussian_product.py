"""The exact proposal for a Gaussian transition that is observed linearly with Gaussian noise.

With x' = m + L u, u ~ N(0, I) and y = h + H (x' - m) + N(0, R), let B = R^{-1/2} H L and r = R^{-1/2} (y - h). Then

    u | y ~ N(C^{-1} B^T r, C^{-1}),    C = I + B^T B,
    log p(y) = log N(r; 0, I) - log |R| / 2 - log |C| / 2 + r^T B C^{-1} B^T r / 2.

The weight does not depend on where the particle lands: no proposal can do better. Nothing is inverted but C, so a
transition may be deterministic in some components. A missing component of y has a zero row in B and in r.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from paramfilter import distributions
from paramfilter.gaussian import Gaussian, gaussian_of, known_gaussian
from paramfilter.inspect.dependence import probe_data
from paramfilter.inspect.once import once_per_model
from paramfilter.inspect.probe import trial
from paramfilter.model import StateSpaceModel
from paramfilter.numerics.small_matrices import cholesky, inverse_of_lower, solve_lower
from paramfilter.proposals.base import BoundProposal, Move

TOLERANCE = 1e-8
"""Relative change, in float64, below which a slope is taken to be constant."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class GaussianPlan:
    """The distribution of the next state given y, as `center + factor @ N(0, I)`, and log p(y | x_prev, theta)."""

    center: Float[Array, " state"]
    factor: Float[Array, "state state"]
    log_predictive: Float[Array, ""]


@dataclass(frozen=True, eq=False)
class GaussianProduct(BoundProposal):
    """Draw from p(x | x_prev, y, theta) itself."""

    model: StateSpaceModel

    def plan(self, theta, x_prev, y, inputs):
        moved = known_gaussian(self.model.transition(theta, x_prev, inputs))
        seen, slope = _seen_from(self.model, theta, x_prev, moved.mean, inputs)
        return condition(moved, seen, slope, distributions.ravel(y))

    def ahead(self, plan):
        return plan.log_predictive

    def propose(self, key, plan, theta, x_prev, y, inputs):
        _, unravel = ravel_pytree(x_prev)
        noise = jax.random.normal(key, plan.center.shape, plan.center.dtype)
        return Move(unravel(plan.center + plan.factor @ noise), plan.log_predictive)


def condition(moved: Gaussian, seen: Gaussian, slope: Float[Array, "obs state"], y: Float[Array, " obs"]):
    """Return the distribution of x' given y; `seen` is that of y at the mean of x', and `slope` how y follows x'."""
    observed = ~jnp.isnan(y)
    noise = seen.observed_only(observed)
    residual = noise.whiten(jnp.where(observed, y - seen.mean, 0.0))
    scale = jnp.diag(moved.scale) if moved.is_diagonal else moved.scale
    spread = noise.whiten(jnp.where(observed[:, None], slope @ scale, 0.0))
    root = cholesky(jnp.eye(len(moved.mean), dtype=spread.dtype) + spread.T @ spread)
    pull = solve_lower(root, spread.T @ residual)
    log_predictive = (
        noise.log_normaliser(observed)
        - 0.5 * (jnp.sum(residual**2) - jnp.sum(pull**2))
        - jnp.sum(jnp.log(jnp.diagonal(root)))
    )
    inverse = inverse_of_lower(root).T
    return GaussianPlan(moved.mean + scale @ (inverse @ pull), scale @ inverse, log_predictive)


@once_per_model
def is_gaussian_product(model: StateSpaceModel) -> bool:
    """Tell whether a model has Gaussian transitions, observed linearly with a Gaussian noise that is blind to x."""

    def pieces(theta, x_prev, x, inputs):
        moved, seen = (
            gaussian_of(model.transition(theta, x_prev, inputs)),
            gaussian_of(model.observation(theta, x, inputs)),
        )
        if moved is None or seen is None:
            raise _NotGaussianError
        flat, unravel = ravel_pytree(x)
        seen_from = lambda point: gaussian_of(model.observation(theta, unravel(point), inputs))
        return jax.jacfwd(lambda point: seen_from(point).mean)(flat), seen.scale  # pyright: ignore[reportOptionalMemberAccess]

    trial(model)  # in the user's own precision
    with jax.enable_x64(True):
        z, data = probe_data(model)

        def evaluate(x):
            one = lambda point, datum, state: pieces(
                model.parameters.constrain(point), datum.x_prev, state, datum.inputs
            )
            return jax.vmap(one)(z, data, x)

        try:
            here = jax.jit(evaluate)(data.x)
            elsewhere = jax.jit(evaluate)(jax.tree.map(lambda leaf: np.roll(leaf, 1, axis=0) + 1.0, data.x))
        except _NotGaussianError:
            return False
        return all(
            np.allclose(first, second, rtol=TOLERANCE, atol=TOLERANCE)
            for first, second in zip(here, elsewhere, strict=True)
        )


class _NotGaussianError(Exception):
    """A distribution is not Gaussian; raised while tracing."""


def _seen_from(model, theta, x_prev, point, inputs) -> tuple[Gaussian, Float[Array, "obs state"]]:
    """Return the distribution of y at one state, and the slope of its mean there."""
    _, unravel = ravel_pytree(x_prev)

    def law(flat):
        return known_gaussian(model.observation(theta, unravel(flat), inputs))

    return law(point), jax.jacfwd(lambda flat: law(flat).mean)(point)
