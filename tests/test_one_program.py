"""What `run` has compiled serves `step` and data of any other length: nothing is compiled after the first run."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from compilations import compilations

import paramfilter as pf

MODEL = pf.models.linear_gaussian(phi=dist.Normal(0.0, 0.5), r=0.5)
YS = np.asarray(jax.random.normal(jax.random.key(0), (300,)))

FILTERS = {
    "extended parameter filter": lambda: pf.extended_parameter_filter(
        pf.models.sin(), 32, belief=pf.particles.Grid(33), proposal=pf.proposals.Bootstrap()
    ),
}


@pytest.mark.parametrize("name", FILTERS)
def test_step_after_run_and_a_run_of_another_length_compile_nothing(name):
    filter = FILTERS[name]()
    start = filter.init(jax.random.key(1))
    with compilations() as count:
        first, _ = pf.run(filter, start, YS[:5], progress=False)
    assert count[0] > 0, "the count would notice a compilation"
    with compilations() as count:
        stepped, info = filter.step(first, YS[5])
        stepped, info = filter.step(stepped, float(YS[6]))
        _, history = pf.run(filter, start, YS, progress=False)
    assert count[0] == 0
    assert len(history) == len(YS) and np.shape(info.ess) == ()
    assert history.info.ess[6] == info.ess, "and both took the same steps"


def test_a_fleet_compiles_nothing_after_its_first_run_and_its_first_step():
    fleet = pf.Fleet(pf.storvik_filter(MODEL, 32))
    ids = ["oslo", "lima", "kyiv"]
    start = lambda: fleet.init(jax.random.key(2), ids)
    fleet.step(fleet.run(start(), np.zeros((3, 4))), np.zeros(3))
    first, second = start(), start()
    with compilations() as count:
        state = fleet.run(first, np.zeros((3, 90)))
        state, info = fleet.step(state, np.zeros(3))
        other, _ = fleet.step(second, np.zeros(3), mask=[True, False, True])
    assert count[0] == 0
    assert state.time.tolist() == [91] * 3 and other.time.tolist() == [1, 0, 1] and info.ess.shape == (3,)
