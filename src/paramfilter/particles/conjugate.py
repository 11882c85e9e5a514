"""Storvik's belief: the exact posterior of theta given the particle's path, where one of fixed size exists.

The structure is read off the model (see `linear_structure`): Gaussian transitions and observations whose means are
linear in parameters with Normal priors, with known noise or unknown variances with InverseGamma priors, or both
together. What is absorbed, drawn and summarised is exact; the only error left is that of the particles.

Reference: Storvik, Particle filters for state-space models with the presence of unknown static parameters, IEEE
    Trans. Signal Processing 50 (2002); Erol et al. 2013, Section 2.3 and Appendix A.

>>> import jax, jax.numpy as jnp, numpyro.distributions as dist
>>> from paramfilter.model import StateSpaceModel
>>> model = StateSpaceModel(
...     prior={"phi": dist.Normal(0.3, 0.2), "q": dist.InverseGamma(3.0, 2.0)},
...     initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
...     transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x, jnp.sqrt(theta["q"])),
...     observation=lambda theta, x, inputs: dist.Normal(x, 0.5),
... )
>>> len(Conjugate().bind(model).posteriors)
1
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from paramfilter.filters import Moments
from paramfilter.inspect.linear_structure import Block, LinearStructure, linear_structure
from paramfilter.model import StateSpaceModel
from paramfilter.particles.belief import Belief, BoundBelief, Draw
from paramfilter.particles.regressions import (
    BlockPosterior,
    CoefficientsAndVariance,
    KnownVariance,
    Sums,
    VarianceOnly,
)


@dataclass(frozen=True)
class Conjugate(Belief):
    """The exact conjugate posterior, for Gaussian models that are linear in their parameters."""

    def bind(self, model: StateSpaceModel) -> BoundBelief:
        """Fit a conjugate model, or say where conjugacy breaks."""
        structure = linear_structure(model)
        posteriors = tuple(_block_posterior(structure, block) for block in structure.blocks)
        return BoundConjugate(model, structure, posteriors)


@dataclass(frozen=True, eq=False)
class BoundConjugate(BoundBelief):
    """One independent posterior per block; the statistic is the tuple of theirs."""

    model: StateSpaceModel
    structure: LinearStructure
    posteriors: tuple[BlockPosterior, ...]
    name: str = "Conjugate"
    can_forget: ClassVar[bool] = True

    def init(self):
        return tuple(Sums.start(len(posterior.prior_factor)) for posterior in self.posteriors)

    def update(self, shared, statistic, datum):
        residual, design, observed = self.structure.regression(datum)
        absorbed = []
        for block, part in zip(self.structure.blocks, statistic, strict=True):
            rows, columns = np.asarray(block.responses, int), np.asarray(block.coefficients, int)
            count = jnp.sum(observed[rows]).astype(residual.dtype)
            absorbed.append(part.add(residual[rows], design[rows][:, columns], count))
        return tuple(absorbed)

    def sample(self, key, shared, statistic, previous):
        z = jnp.asarray(self.structure.coefficient_mean, previous.dtype)
        for (places, posterior, part), own in zip(
            self._parts(statistic), jax.random.split(key, len(statistic)), strict=True
        ):
            z = z.at[places].add(posterior.sample(own, part))
        return Draw.without_trouble(z)

    def moments(self, shared, statistic, z):
        # Coefficients are their own coordinates; a variance is kept as itself, not as its logarithm.
        mean = jnp.asarray(self.structure.coefficient_mean, z.dtype)
        variance = jnp.zeros_like(mean)
        for places, posterior, part in self._parts(statistic):
            means, variances = posterior.moments(part)
            mean, variance = mean.at[places].add(means), variance.at[places].set(variances)
        return Moments(self._named(mean), self._named(variance))

    def log_prob(self, shared, statistic, z):
        delta = z - jnp.asarray(self.structure.coefficient_mean, z.dtype)  # of a log variance, 0 is taken off
        each = (posterior.log_prob(part, delta[places]) for places, posterior, part in self._parts(statistic))
        return sum(each, start=jnp.zeros((), z.dtype))

    def _parts(self, statistic):
        """Return for each block the places of its coordinates, its posterior, and its statistic."""
        places = [np.asarray(block.places, int) for block in self.structure.blocks]
        return zip(places, self.posteriors, statistic, strict=True)

    def _named(self, vector):
        parameters = self.model.parameters
        return {
            name: jnp.reshape(vector[parameters.slices[name]], parameters.prior[name].shape())
            for name in parameters.names
        }


def _block_posterior(structure: LinearStructure, block: Block) -> BlockPosterior:
    columns = list(block.coefficients)
    prior_factor = np.linalg.cholesky(structure.coefficient_covariance[np.ix_(columns, columns)])
    if block.variance is None:
        return KnownVariance(prior_factor)
    shape, rate = float(structure.shape[block.variance]), float(structure.rate[block.variance])
    if not columns:
        return VarianceOnly(prior_factor, shape, rate)
    return CoefficientsAndVariance(prior_factor, shape, rate)
