"""A run is looked at, and what was found is said: the right code for each trouble, and praise where all is well."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
import pytest

import paramfilter as pf
from paramfilter.diagnostics import CODES


@pytest.fixture(scope="module")
def filter():
    model = pf.models.linear_gaussian(phi=dist.Normal(0.5, 0.3))
    return pf.ParticleFilter(model, 200, pf.beliefs.Conjugate(), pf.proposals.LookAhead(), num_islands=4)


def look(filter, ys):
    state, history = pf.run(filter, filter.init(jax.random.key(1)), ys, progress=False)
    return pf.diagnose(state, history)


def data(filter, num_steps, seed=0):
    return pf.simulate(jax.random.key(seed), filter.model, {"phi": 0.7}, num_steps)[1]


def found(diagnosis):
    return [finding.code.code for finding in diagnosis.findings]


def test_a_good_run_is_praised(filter, capsys):
    diagnosis = look(filter, data(filter, 30))
    assert diagnosis.is_well
    printed = capsys.readouterr().out
    assert "30 steps, 200 particles in 4 islands" in printed and "no problem was found" in printed


def test_long_runs_of_few_particles_are_caught(filter):
    diagnosis = look(filter, data(filter, 2000))
    assert "W02" in found(diagnosis) and "W03" in found(diagnosis)
    assert "phi" in str(diagnosis)


def test_paths_do_not_matter_while_beliefs_are_mixed(filter):
    """The same loss of paths is named or not, as beliefs were last mixed long ago, a moment ago, or never."""
    state, history = pf.run(filter, filter.init(jax.random.key(1)), data(filter, 2000), progress=False)
    assert int(state.mixed_at) == -1
    for mixed_at, is_named in ((-1, True), (1500, True), (1990, False)):
        assert ("W02" in found(pf.diagnose(replace(state, mixed_at=jnp.int32(mixed_at)), history))) == is_named


def test_a_wrong_model_is_caught(filter):
    assert found(look(filter, 4 * data(filter, 60))) == ["W05"]


def test_impossible_data_are_counted(filter):
    ys = data(filter, 30).at[7].set(jnp.inf).at[9].set(1e30)
    diagnosis = look(filter, ys)
    assert {"W06", "W09"} <= set(found(diagnosis))
    assert "1 of 30 steps, first at step 8" in str(diagnosis)


def test_few_effective_particles_are_caught():
    model = pf.models.linear_gaussian(phi=dist.Normal(0.5, 0.3), r=1e-4)
    filter = pf.ParticleFilter(model, 200, pf.beliefs.Conjugate(), num_islands=4)
    assert "W01" in found(look(filter, data(filter, 30)))


def test_every_code_explains_itself():
    assert [code.code for code in CODES] == [f"W{number:02d}" for number in range(1, len(CODES) + 1)]
    for code in CODES:
        assert code.title in pf.explain(code.code) and "What to try" in pf.explain(code.code.lower())
    with pytest.raises(ValueError, match="no warning 'W99'; the codes are W01 to W13"):
        pf.explain("W99")
