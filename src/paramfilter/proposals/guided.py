"""Proposals that see the data.

`Guided` moves by p(x | x_prev, y, theta) itself where transition and observation are Gaussian and linear in x, and by
an approximation of it elsewhere. `LookAhead` resamples by how well a particle will explain y before it moves (Pitt and
Shephard 1999, Filtering via simulation: auxiliary particle filters, J. Amer. Statist. Assoc. 94).
"""

from __future__ import annotations

from dataclasses import dataclass

from paramfilter.errors import ProposalError
from paramfilter.inspect.linear_gaussian import observed_linearly
from paramfilter.model import StateSpaceModel
from paramfilter.proposals.base import BoundProposal, Proposal
from paramfilter.proposals.gaussian_product import GaussianProduct
from paramfilter.proposals.laplace_product import laplace_product


@dataclass(frozen=True)
class Guided(Proposal):
    """Move toward the observation: exactly for Gaussian models that are observed linearly, nearly for others."""

    def bind(self, model: StateSpaceModel) -> BoundProposal:
        """Fit a model whose state is made of real numbers."""
        linear = observed_linearly(model)
        return laplace_product(model) if linear is None else GaussianProduct(model, linear)


@dataclass(frozen=True)
class LookAhead(Proposal):
    """Resample by how well particles will explain the next observation, then move.

    Args:
        proposal: How they move.
    """

    proposal: Proposal = Guided()

    def bind(self, model: StateSpaceModel) -> BoundProposal:
        """Fit what the inner proposal fits."""
        inner = self.proposal.bind(model)
        if type(inner).ahead is BoundProposal.ahead:
            raise ProposalError(
                f"LookAhead needs a proposal that sees the data, and {self.proposal!r} does not; use Guided()."
            )
        return _Ahead(inner)


@dataclass(frozen=True, eq=False)
class _Ahead(BoundProposal):
    inner: BoundProposal
    looks_ahead: bool = True

    def plan(self, theta, x_prev, y, inputs):
        return self.inner.plan(theta, x_prev, y, inputs)

    def ahead(self, plan):
        return self.inner.ahead(plan)

    def propose(self, key, plan, theta, x_prev, y, inputs):
        return self.inner.propose(key, plan, theta, x_prev, y, inputs)
