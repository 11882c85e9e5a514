"""What both Taylor beliefs share: where and how far to expand, how to draw, and the checks on meeting a model."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from paramfilter.beliefs.base import Belief, BoundBelief
from paramfilter.beliefs.coordinates import Coordinates, coordinates_for
from paramfilter.beliefs.log_polynomial import LogPolynomial
from paramfilter.beliefs.samplers import InverseCdf, Slice, ThetaSampler
from paramfilter.errors import BeliefError
from paramfilter.inspect.dependence import ThetaFactors, probe_data
from paramfilter.model import StateSpaceModel, Transition
from paramfilter.polynomials import MonomialBasis
from paramfilter.types import Inputs, State


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
        sampler: How theta is drawn; None for `InverseCdf` with one parameter and `Slice` with several.
    """

    order: int
    center: float | Mapping[str, float] | None = None
    sampler: ThetaSampler | None = None

    @abc.abstractmethod
    def expansion(self, factors: ThetaFactors, coordinates: Coordinates) -> Expansion:
        """Say how data become coefficients, or raise `BeliefError` if the model does not fit."""

    def bind(self, model: StateSpaceModel) -> BoundBelief:
        """Fit the belief to a model, or raise `BeliefError` with the cure."""
        dimension = model.parameters.dimension
        sampler = self.sampler or (InverseCdf() if dimension == 1 else Slice())
        if self.order < 1:
            raise BeliefError(f"the order of a Taylor belief must be a positive integer, got {self.order!r}.")
        if isinstance(sampler, InverseCdf) and dimension > 1:
            raise BeliefError(
                f"InverseCdf draws one parameter, but this model has {dimension}; use Slice() or RandomWalk()."
            )
        factors = ThetaFactors(model)
        coordinates = coordinates_for(model.parameters, self.center)
        expansion = self.expansion(factors, coordinates)
        self._require_finite(model, coordinates, expansion)
        return LogPolynomial(
            model=model,
            coordinates=coordinates,
            basis=expansion.basis,
            sampler=sampler,
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
