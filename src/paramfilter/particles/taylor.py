"""The paper's two ways to a belief of fixed size: Taylor series in theta, of the mean or of the log density.

`TaylorOfMean` (Theorem 3, Equation 12). With x' ~ N(f(theta, x), Sigma) and f ~ sum_{|i| <= M} H^i(x) u^i, a step adds
to the statistic the coefficients of

    -1/2 || Sigma^{-1/2} (x' - sum_i H^i(x) u^i) ||^2,

a polynomial of degree 2M, C(p + 2M, p) numbers. It is never positive, so the belief is never improper and never above
the prior. A Gaussian observation whose mean depends on theta is treated in the same way. It is wrong where |theta x|
is so large that the truncated series has left the function (for sin and M = 7, beyond about 3).

`TaylorOfLogDensity` (Theorem 2; the paper's Cauchy example) takes any density that can be differentiated, and it is
fragile. Truncated at the wrong degree the polynomial grows without bound and the belief is improper (degrees 4, 8, ...
of log(1 + v^2)); outside the radius of convergence it is proper, narrow and wrong (half of all Cauchy shocks lie
outside).

Both are checked against the model as they run, and what is found is in `info.outcome`.

Reference: Erol, Li, Ramsundar, Russell, The Extended Parameter Filter, ICML 2013, Section 4.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from paramfilter import distributions
from paramfilter.errors import BeliefError
from paramfilter.gaussian import gaussian_of, known_gaussian
from paramfilter.inspect.dependence import ThetaFactors, dependence_of, probe_data
from paramfilter.model import StateSpaceModel, Transition
from paramfilter.particles.belief import Belief
from paramfilter.particles.coordinates import Coordinates, coordinates_for
from paramfilter.particles.log_polynomial import LogPolynomial
from paramfilter.polynomials import MonomialBasis, multiply, taylor_coefficients
from paramfilter.types import Inputs, State, Theta


@dataclass(frozen=True, eq=False)
class Expansion:
    """How a kind of Taylor belief turns data into coefficients.

    Args:
        basis: The monomials of the log density.
        step: Coefficients of log p(x | x_prev, theta) + log p(y | x, theta), without parts that are free of theta.
        initial: Coefficients of log p(x_0 | theta).
        is_always_proper: The polynomial is bounded above by construction.
    """

    basis: MonomialBasis
    step: Callable[[Transition], Float[Array, " coeff"]]
    initial: Callable[[State, Inputs], Float[Array, " coeff"]]
    is_always_proper: bool


@dataclass(frozen=True)
class TaylorBelief(Belief):
    """A log-polynomial belief from a Taylor series.

    Args:
        order: Degree of the series.
        center: Where to expand, on the natural scale; None for the median of the prior.
    """

    order: int
    center: float | Mapping[str, float] | None = None

    @abc.abstractmethod
    def expansion(self, factors: ThetaFactors, coordinates: Coordinates) -> Expansion:
        """Say how data become coefficients, or raise `BeliefError` if the model does not fit."""

    def bind(self, model: StateSpaceModel) -> LogPolynomial:
        """Fit the belief to a model, or raise `BeliefError` with the cure."""
        if self.order < 1:
            raise BeliefError(f"the order of a Taylor belief must be a positive integer, got {self.order!r}.")
        factors = ThetaFactors(model)
        coordinates = coordinates_for(model.parameters, self.center)
        expansion = self.expansion(factors, coordinates)
        self._require_finite(model, coordinates, expansion)
        return LogPolynomial(
            model=model,
            coordinates=coordinates,
            basis=expansion.basis,
            expand=expansion.step,
            exact=factors.step,
            expand_initial=expansion.initial if factors.depends.initial else None,
            is_always_proper=expansion.is_always_proper,
            name=repr(self),
        )

    def _require_finite(self, model: StateSpaceModel, coordinates: Coordinates, expansion: Expansion) -> None:
        _, data = probe_data(model)
        coefficients = jax.jit(jax.vmap(expansion.step))(data)
        if np.all(np.isfinite(coefficients)):
            return
        center = model.parameters.constrain(jnp.asarray(coordinates.center, float))
        point = {name: value.tolist() for name, value in center.items()}
        label = type(self).__name__
        raise BeliefError(
            f"{label}: the Taylor coefficients at theta={point} are not finite. Choose a center where the model is "
            f"smooth, for example {label}(center={{...}}), or a lower order."
        )


@dataclass(frozen=True)
class TaylorOfLogDensity(TaylorBelief):
    """A log-polynomial belief from the Taylor series of the log density; `order` is the degree of the polynomial.

    The arguments are those of `TaylorBelief`: order and center.
    """

    order: int = 10

    def expansion(self, factors: ThetaFactors, coordinates: Coordinates) -> Expansion:
        """Fit any model whose log density can be differentiated `order` times."""
        basis = MonomialBasis(factors.model.parameters.dimension, self.order)

        def expand(log_density):
            return taylor_coefficients(lambda u: log_density(coordinates.to_z(u)), jnp.zeros(basis.dimension), basis)

        def step(datum):
            return expand(lambda z: factors.step(datum, z))

        def initial(x, inputs):
            return expand(lambda z: factors.initial(z, x, inputs))

        return Expansion(basis, step, initial, is_always_proper=False)


@dataclass(frozen=True)
class TaylorOfMean(TaylorBelief):
    """A log-polynomial belief from the Taylor series of a Gaussian's mean; with `order` M it has degree 2M.

    The arguments are those of `TaylorBelief`: order and center.
    """

    order: int = 7

    def expansion(self, factors: ThetaFactors, coordinates: Coordinates) -> Expansion:
        """Fit a model in which theta enters only the means of Gaussians."""
        reason = why_not_means(factors.model)
        if reason is not None:
            raise BeliefError(f"TaylorOfMean: {reason}; use TaylorOfLogDensity().")
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

    gaussian_at = lambda u: known_gaussian(law(model.parameters.constrain(coordinates.to_z(u))))
    origin = jnp.zeros(basis.dimension)
    observed = ~jnp.isnan(value)
    gaussian = gaussian_at(origin).observed_only(observed)
    mean = taylor_coefficients(lambda u: gaussian_at(u).mean, origin, basis).T  # (obs, coeff)
    residual = (-mean).at[:, 0].add(jnp.where(observed, value, 0.0))
    residual = gaussian.whiten(jnp.where(observed[:, None], residual, 0.0))
    squares = jax.vmap(lambda row: multiply(basis, row, basis, row))(residual)
    return (-0.5 * jnp.sum(squares, axis=0)).at[0].add(gaussian.log_normaliser(observed))


def why_not_means(model: StateSpaceModel) -> str | None:
    """Return None if theta enters the model only by the means of Gaussians, or else the reason why not."""
    depends = dependence_of(model)
    laws = {
        "initial": (depends.initial, lambda theta, datum: model.initial(theta, datum.inputs)),
        "transition": (depends.transition, lambda theta, datum: model.transition(theta, datum.x_prev, datum.inputs)),
        "observation": (depends.observation, lambda theta, datum: model.observation(theta, datum.x, datum.inputs)),
    }
    with jax.enable_x64(True):
        z, data = probe_data(model)
        for label, (is_needed, law) in laws.items():
            families = []

            def scale(point, datum, law=law, families=families):
                found = law(model.parameters.constrain(point), datum)
                leaves = jax.tree.leaves(found, is_leaf=distributions.is_distribution)
                families += [type(distributions.components(leaf)).__name__ for leaf in leaves]
                gaussian = gaussian_of(found)
                return jnp.zeros(()) if gaussian is None else gaussian.scale

            if not is_needed:
                continue
            slopes = jax.jit(jax.vmap(jax.jacfwd(scale)))(z, data)
            if not set(families) <= {"Normal", "MultivariateNormal"}:
                return f"the {label} is no Gaussian ({', '.join(sorted(set(families)))})"
            if np.any(np.asarray(slopes) != 0):
                return f"the noise of the {label} depends on theta"
    return None
