"""The paper's second way: a Taylor series in theta of the log density of each step (its Cauchy example).

It takes any density that can be differentiated, and it is fragile. Truncated at the wrong degree the polynomial grows
without bound and the belief is improper (degrees 4, 8, ... of log(1 + v^2)); outside the radius of convergence it is
proper, narrow and wrong (half of all Cauchy shocks lie outside). Both are found and reported in `info.outcome`. It is
kept to reproduce the paper; for inference prefer `TaylorOfMean` where the noise is Gaussian.

Reference: Erol, Li, Ramsundar, Russell, The Extended Parameter Filter, ICML 2013, Theorem 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp

from paramfilter.beliefs.coordinates import Coordinates
from paramfilter.beliefs.taylor_belief import Expansion, TaylorBelief
from paramfilter.inspect.dependence import ThetaFactors
from paramfilter.polynomials import MonomialBasis, taylor_coefficients


@dataclass(frozen=True)
class TaylorOfLogDensity(TaylorBelief):
    """A log-polynomial belief from the Taylor series of the log density; `order` is the degree of the polynomial.

    The arguments are those of `TaylorBelief`: order, center, sampler.
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
