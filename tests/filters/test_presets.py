"""What the presets choose."""

import numpyro.distributions as dist
import pytest

import paramfilter as pf
from paramfilter.beliefs import Conjugate, CrossInterpolation
from paramfilter.filters.presets import choose_belief


@pytest.mark.parametrize(("num_particles", "num_islands"), [(396, 1), (400, 4)])
def test_four_islands_of_a_hundred_particles_or_one(num_particles, num_islands):
    filter = pf.extended_parameter_filter(
        pf.models.sin(), num_particles, belief=pf.beliefs.PointMass(), proposal=pf.proposals.Bootstrap()
    )
    assert filter.num_islands == num_islands


def test_beliefs_are_chosen_that_two_ancestors_can_share():
    one = pf.models.linear_gaussian(phi=dist.Normal(0.0, 0.5))
    both = pf.models.linear_gaussian(phi=dist.Normal(0.0, 0.5), q=dist.InverseGamma(5.0, 4.0))
    assert [choose_belief(model)[0] for model in (one, both)] == [Conjugate(), CrossInterpolation()]
