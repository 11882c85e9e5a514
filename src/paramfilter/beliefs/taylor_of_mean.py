"""The paper's first way (Theorem 3): a Taylor series in theta of the *mean* of a Gaussian transition.

With x' ~ N(f(theta, x), Sigma) and f ~ sum_{|i| <= M} H^i(x) u^i, a step adds to the statistic the coefficients of

    -1/2 || Sigma^{-1/2} (x' - sum_i H^i(x) u^i) ||^2,

a polynomial of degree 2M. It is never positive, so the belief is never improper and never above the prior. A Gaussian
observation whose mean depends on theta is treated in the same way.

What it costs: C(p + 2M, p) numbers a particle. When it lies: where |theta x| is so large that the truncated series
has left the function (for sin and M = 7, beyond about 3); then the belief converges to a wrong value. The step's
discrepancy shows it.

Reference: Erol, Li, Ramsundar, Russell, The Extended Parameter Filter, ICML 2013, Theorem 3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from paramfilter import distributions
from paramfilter.beliefs.coordinates import Coordinates
from paramfilter.beliefs.taylor_belief import Expansion, TaylorBelief
from paramfilter.errors import BeliefError
from paramfilter.gaussian import Gaussian, gaussian_of
from paramfilter.inspect.dependence import ThetaFactors, probe_data
from paramfilter.model import StateSpaceModel
from paramfilter.polynomials import MonomialBasis, multiply, taylor_coefficients
from paramfilter.types import Theta


@dataclass(frozen=True)
class TaylorOfMean(TaylorBelief):
    """A log-polynomial belief from the Taylor series of a Gaussian's mean; with `order` M it has degree 2M.

    The arguments are those of `TaylorBelief`: order, center, sampler.
    """

    order: int = 7

    def expansion(self, factors: ThetaFactors, coordinates: Coordinates) -> Expansion:
        """Fit a model in which theta enters only the means of Gaussians."""
        _require_gaussian_means(factors)
        model, depends = factors.model, factors.depends
        mean_basis = MonomialBasis(model.parameters.dimension, self.order)
        basis = MonomialBasis(model.parameters.dimension, 2 * self.order)

        def score(law: Callable[[Theta], distributions.DistributionTree], value: Array):
            return _gaussian_polynomial(model, coordinates, mean_basis, law, value)

        def step(datum):
            total = jnp.zeros(basis.size)
            if depends.transition:
                value = distributions.ravel(datum.x)
                total += score(lambda theta: model.transition(theta, datum.x_prev, datum.inputs), value)
            if depends.observation:
                value = distributions.ravel(datum.y)
                total += score(lambda theta: model.observation(theta, datum.x, datum.inputs), value)
            return total

        def initial(x, inputs):
            return score(lambda theta: model.initial(theta, inputs), distributions.ravel(x))

        return Expansion(basis, step, initial, is_always_proper=True)


def _gaussian_polynomial(
    model: StateSpaceModel,
    coordinates: Coordinates,
    basis: MonomialBasis,
    law: Callable[[Theta], distributions.DistributionTree],
    value: Float[Array, " obs"],
) -> Float[Array, " coeff"]:
    """Return the coefficients of log N(value; polynomial mean, covariance), of degree twice the mean's."""

    def gaussian_at(u) -> Gaussian:
        gaussian = gaussian_of(law(model.parameters.constrain(coordinates.to_z(u))))
        assert gaussian is not None  # checked when the belief was bound
        return gaussian

    origin = jnp.zeros(basis.dimension)
    observed = ~jnp.isnan(value)
    gaussian = gaussian_at(origin).observed_only(observed)
    mean = taylor_coefficients(lambda u: gaussian_at(u).mean, origin, basis).T  # (obs, coeff)
    residual = (-mean).at[:, 0].add(jnp.where(observed, value, 0.0))
    residual = gaussian.whiten(jnp.where(observed[:, None], residual, 0.0))
    squares = jax.vmap(lambda row: multiply(basis, row, basis, row))(residual)
    return (-0.5 * jnp.sum(squares, axis=0)).at[0].add(gaussian.log_normaliser(observed))


def _require_gaussian_means(factors: ThetaFactors) -> None:
    model, depends = factors.model, factors.depends
    with jax.enable_x64(True):
        z, data = probe_data(model)
        laws = {
            "initial": (depends.initial, lambda theta, datum: model.initial(theta, datum.inputs)),
            "transition": (
                depends.transition,
                lambda theta, datum: model.transition(theta, datum.x_prev, datum.inputs),
            ),
            "observation": (depends.observation, lambda theta, datum: model.observation(theta, datum.x, datum.inputs)),
        }
        for label, (is_needed, law) in laws.items():
            if is_needed:
                _require_one(label, model, law, z, data)


def _require_one(label, model, law, z, data) -> None:
    def scale(z_one, datum):
        found = law(model.parameters.constrain(z_one), datum)
        gaussian = gaussian_of(found)
        if gaussian is None:
            families = jax.tree.leaves(found, is_leaf=distributions.is_distribution)
            names = ", ".join(sorted({type(distributions.components(leaf)).__name__ for leaf in families}))
            raise BeliefError(f"TaylorOfMean needs a Gaussian {label}, got {names}; use TaylorOfLogDensity().")
        return gaussian.scale

    slopes = np.asarray(jax.jit(jax.vmap(jax.jacfwd(scale)))(z, data))
    if np.any(slopes != 0):
        raise BeliefError(
            f"TaylorOfMean needs a noise level that does not depend on theta, but the scale of the {label} does; use "
            "Conjugate() if theta enters linearly and variances have InverseGamma priors, else TaylorOfLogDensity()."
        )
