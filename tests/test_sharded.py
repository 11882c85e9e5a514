"""What the devices of a large filter say is pooled as one filter with all their islands would say it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import paramfilter as pf
from paramfilter.filters.islands import IslandMoments
from paramfilter.sharded import ShardedFilter, _pooled_info


def info(ess, log_evidence, outcome):
    """What three devices say, each value on a leading axis."""
    same = jnp.ones(3)
    return pf.filters.StepInfo(
        ess=jnp.array(ess),
        log_evidence_increment=jnp.array(log_evidence),
        outcome=jnp.array(outcome, jnp.int32),
        resampled=jnp.array([False, True, False]),
        num_nan=jnp.array([0, 2, 1]),
        approximation_error=0.1 * same,
        rhat=jnp.full((3, 1), jnp.nan),
        num_unique_ancestors=jnp.array([3, 4, 5]),
        forecast=jnp.zeros((3, 5)),
        pit=0.5 * same,
    )


def test_what_devices_say_is_pooled():
    islands = IslandMoments(jnp.array([[[0.0]], [[0.0]], [[3.0]]]), jnp.ones((3, 1, 1)), jnp.full((3, 1), 100.0))
    found = _pooled_info(info([10.0, 20.0, 30.0], [-1.0, -1.0, -1.0], [1, 0, 4]), islands)
    assert float(found.ess) == 60.0 and int(found.outcome) == 5 and bool(found.resampled)
    assert int(found.num_nan) == 3 and int(found.num_unique_ancestors) == 12
    assert float(found.log_evidence_increment) == pytest.approx(-1.0, abs=1e-6), "equal shares of equal evidence"
    # The means have a variance of 3, of which 1/100 is chance.
    assert float(found.rhat[0]) == pytest.approx(np.sqrt(1 + 3 - 0.01), rel=1e-5)
    apart = _pooled_info(info([10.0, 20.0, 30.0], [0.0, -jnp.inf, -jnp.inf], [0, 0, 0]), islands)
    assert float(apart.log_evidence_increment) == pytest.approx(-np.log(3.0), rel=1e-6)


def test_a_mesh_has_one_axis():
    filter = pf.sir_filter(pf.models.linear_gaussian(), 8)
    with pytest.raises(pf.errors.DataError, match="mesh of one axis"):
        ShardedFilter(filter, jax.make_mesh((1, 1), ("rows", "columns")))


@pytest.mark.slow
def test_a_step_that_fails_on_all_devices_does_not_count():
    model = pf.models.linear_gaussian()
    large = ShardedFilter(pf.sir_filter(model, 8), jax.make_mesh((1,), ("device",)))
    state, _ = large.step(large.init(jax.random.key(0)), 0.3)
    before = float(state.log_evidence)
    state, info = large.step(state, 1e30)
    assert float(info.log_evidence_increment) == -np.inf and pf.Outcome.ALL_WEIGHTS_ZERO & int(info.outcome)
    assert float(state.log_evidence) == before and np.isfinite(before)
