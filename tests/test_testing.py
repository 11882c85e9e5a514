"""The public checks pass the parts that are shipped, and fail parts that are wrong."""

from dataclasses import dataclass, fields, replace
from operator import attrgetter

import jax.numpy as jnp
import numpyro.distributions as dist
import pytest

import paramfilter as pf
from paramfilter.nodes import AssumedDensity, Guided, Kalman
from paramfilter.particles.conjugate import BoundConjugate
from paramfilter.proposals.bootstrap import _BoundBootstrap
from paramfilter.testing import check_belief, check_inner_filter, check_proposal

LINEAR = pf.models.linear_gaussian(phi=dist.Normal(0.2, 0.5), q=0.49, r=0.5)
BELIEFS = {
    "Conjugate": (pf.particles.Conjugate(), LINEAR),
    "TaylorOfMean": (pf.particles.TaylorOfMean(order=1), LINEAR),
    "PointMass": (pf.particles.PointMass(), LINEAR),
}


@pytest.mark.parametrize(
    "name", [name if name == "Conjugate" else pytest.param(name, marks=pytest.mark.slow) for name in BELIEFS]
)
def test_beliefs(name):
    check_belief(*BELIEFS[name])


@pytest.mark.parametrize("proposal", [pf.proposals.Bootstrap(), pf.proposals.Guided()])
def test_proposals(proposal):
    check_proposal(proposal, LINEAR)


@pytest.mark.parametrize("inner", [Kalman, pytest.param(Guided, marks=pytest.mark.slow), AssumedDensity])
def test_inner_filters(inner):
    check_inner_filter(inner, LINEAR)


@dataclass(frozen=True)
class Hasty(pf.particles.Conjugate):
    """Learns from everything twice."""

    def bind(self, model):
        bound = super().bind(model)

        class Twice(BoundConjugate):
            def update(self, shared, statistic, datum):
                return super().update(shared, super().update(shared, statistic, datum), datum)

        return Twice(**{name: getattr(bound, name) for name in map(attrgetter("name"), fields(bound))})


@dataclass(frozen=True)
class Careless(pf.proposals.Bootstrap):
    """Moves away from the transition and does not say so."""

    def bind(self, model):
        class Away(_BoundBootstrap):
            def propose(self, key, plan, theta, x_prev, y, inputs):
                move = super().propose(key, plan, theta, x_prev, y, inputs)
                x = move.x + 0.5
                return replace(move, x=x, log_weight=self.model.observation_log_prob(theta, x, y, inputs))

        return Away(model)


@dataclass(frozen=True, eq=False)
class Gossiping(Kalman):
    """Its nodes listen to each other."""

    def step(self, constants, x, y, inputs):
        x, increments = super().step(constants, x, y, inputs)
        return x, jnp.cumsum(increments)


def test_wrong_parts_are_found():
    with pytest.raises(AssertionError, match="misses prior times likelihood"):
        check_belief(Hasty(), LINEAR)
    with pytest.raises(AssertionError, match="mean weight"):
        check_proposal(Careless(), LINEAR)
    with pytest.raises(AssertionError, match="know each other"):
        check_inner_filter(Gossiping, LINEAR)
