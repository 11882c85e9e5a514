"""What the presets choose."""

import pytest

import paramfilter as pf


@pytest.mark.parametrize(("num_particles", "num_islands"), [(396, 1), (400, 4)])
def test_four_islands_of_a_hundred_particles_or_one(num_particles, num_islands):
    filter = pf.extended_parameter_filter(
        pf.models.sin(), num_particles, belief=pf.beliefs.PointMass(), proposal=pf.proposals.Bootstrap()
    )
    assert filter.num_islands == num_islands
