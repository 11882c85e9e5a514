"""A fleet gives each series what its own filter would give it, whoever else is in the batch."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from compilations import compilations

import paramfilter as pf
from paramfilter.fleet import Fleet
from paramfilter.fleet.blocks import BLOCK

MODEL = pf.models.linear_gaussian(phi=dist.Normal(0.0, 0.5), r=0.5)
FILTER = pf.storvik_filter(MODEL, 32)
FLEET = Fleet(FILTER)
IDS = [7, "oslo", 3, "lima", 12]
YS = np.asarray(jax.random.normal(jax.random.key(1), (6, len(IDS))))


def start(ids=IDS):
    return FLEET.init(jax.random.key(5), ids)


def assert_same(one, other):
    """Two states are the same to the last bit."""
    for first, second in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        if jnp.issubdtype(first.dtype, jax.dtypes.prng_key):
            first, second = jax.random.key_data(first), jax.random.key_data(second)
        np.testing.assert_array_equal(first, second)


def test_each_series_is_what_its_own_filter_would_be():
    state = start()
    alone = {one: FLEET.one(state, one) for one in IDS}
    for ys in YS:
        state, info = FLEET.step(state, ys)
        for place, one in enumerate(IDS):
            alone[one], own = FILTER.step(alone[one], ys[place])
            np.testing.assert_allclose(info.log_evidence_increment[place], own.log_evidence_increment, rtol=1e-5)
    for place, one in enumerate(IDS):
        posterior = FILTER.posterior(alone[one])
        np.testing.assert_allclose(FLEET.mean(state)["phi"][place], posterior.mean()["phi"], rtol=1e-4)
        np.testing.assert_allclose(FLEET.sd(state)["phi"][place], posterior.sd()["phi"], rtol=1e-4)


@pytest.mark.slow
def test_a_series_does_not_depend_on_its_company():
    together, others = start(), start([3, 12, "kyiv", "bonn"])
    for ys in YS:
        together, _ = FLEET.step(together, ys)
        others, _ = FLEET.update(others, [12, 3], [ys[4], ys[2]])
    for one in (3, 12):
        assert_same(FLEET.one(together, one), FLEET.one(others, one))


def test_a_sparse_update_is_a_masked_step_and_compiles_once_a_bucket():
    sparse, masked = start(), start()
    for round_, ys in enumerate(YS):
        ids = IDS[: 2 + round_ % 3]
        with compilations() as count:
            sparse, info = FLEET.update(sparse, ids, ys[: len(ids)])
        assert count[0] == 0 or round_ == 0, "two, three and four series share one bucket"
        masked, _ = FLEET.step(masked, ys, mask=np.arange(len(IDS)) < len(ids))
        assert info.ess.shape == (len(ids),)
    assert sparse.time.tolist() == masked.time.tolist() == [6, 6, 4, 2, 0]
    np.testing.assert_array_equal(sparse.series.x, masked.series.x)


def test_series_come_and_go():
    state = FLEET.add(start(), ["kyiv"])
    state, _ = FLEET.step(state, [*YS[0], 1.0])
    before = FLEET.one(state, "lima")
    state = FLEET.drop(state, ["oslo", 7])
    assert state.ids == (3, "lima", 12, "kyiv")
    np.testing.assert_array_equal(FLEET.one(state, "lima").x, before.x)
    fresh = start(["kyiv"])
    np.testing.assert_array_equal(FLEET.one(FLEET.add(start(), ["kyiv"]), "kyiv").x, FLEET.one(fresh, "kyiv").x)


def test_ids_of_numpy_are_the_same_as_of_python_and_no_two_keys_are():
    keys = [np.asarray(jax.random.key_data(start(ids).series.key))[:3] for ids in ([7, "7", 70], np.array([7, 8, 70]))]
    np.testing.assert_array_equal(keys[0][[0, 2]], keys[1][[0, 2]])
    assert len(np.unique(np.concatenate(keys), axis=0)) == 4


def test_missing_observations_pass():
    state, info = FLEET.step(start(), [np.nan, 0.0, np.nan, 0.0, 0.0])
    assert state.time.tolist() == [1] * 5
    np.testing.assert_allclose(info.log_evidence_increment[jnp.array([0, 2])], 0.0, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: start([1, 1]), "named twice"),
        (lambda: start([]), "at least one series"),
        (lambda: FLEET.update(start(), ["rome"], [0.0]), "no series.*rome.*fleet.add"),
        (lambda: FLEET.update(start(), [7, 3], [0.0]), "each of 2 series"),
        (lambda: FLEET.step(start(), [0.0, 1.0]), "each of 5 series"),
        (lambda: FLEET.add(start(), ["oslo"]), "already"),
    ],
)
def test_mistakes_are_named(call, words):
    with pytest.raises(pf.errors.DataError, match=words):
        call()


@pytest.mark.slow
def test_per_series_inputs_reach_their_series():
    model = pf.StateSpaceModel(
        prior={"slope": dist.Normal(0.0, 1.0)},
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, inputs: dist.Normal(0.5 * x + theta["slope"] * inputs, 0.5),
        observation=lambda theta, x, inputs: dist.Normal(x, 0.5),
        example_inputs=1.0,
    )
    fleet = Fleet(pf.storvik_filter(model, 64))
    state = fleet.init(jax.random.key(0), range(3), inputs=np.zeros(3))
    pushes = np.array([1.0, -1.0, 1.0])
    for _ in range(20):
        state, _ = fleet.step(state, np.ones(3), inputs=pushes)
        state, _ = fleet.update(state, [2, 1], [1.0, 1.0], inputs=pushes[[2, 1]])
    slopes = fleet.mean(state)["slope"]
    assert slopes[0] > 0.1 and slopes[2] > 0.1 and slopes[1] < -0.1


@pytest.mark.slow
@pytest.mark.parametrize("filter", [FILTER, pf.ParticleFilter(pf.models.sin(), 48, pf.particles.Grid(33))])
def test_a_series_is_the_same_to_the_last_bit_in_a_batch_of_any_size(filter):
    fleet = Fleet(filter)
    ids = range(5 * BLOCK + 3)
    ys = np.asarray(jax.random.normal(jax.random.key(2), (4, len(ids))))
    together, sparse, few = (fleet.init(jax.random.key(5), some) for some in (ids, ids, range(70, 77)))
    for row in ys:
        together, info = fleet.step(together, row)
        sparse, _ = fleet.update(sparse, [75, 3, 70], row[[75, 3, 70]])
        few, _ = fleet.step(few, row[70:77])
    assert info.ess.shape == together.time.shape == (len(ids),)
    for other, shared in ((sparse, (75, 3, 70)), (few, range(70, 77))):
        for one in shared:
            first, second = (jax.tree.leaves(fleet.one(state, one).statistics) for state in (together, other))
            for leaf, same in zip(first, second, strict=True):
                np.testing.assert_array_equal(leaf, same)


def test_a_fleet_can_be_waited_for():
    state = start()
    assert jax.block_until_ready(state) is not None
    assert len(jax.tree.leaves(state)) == 1 + len(jax.tree.leaves(state.series))


@pytest.mark.slow
def test_spare_rows_are_not_seen():
    state = start()
    assert state.num_rows == BLOCK and len(FLEET.mean(state)["phi"]) == len(FLEET.sd(state)["phi"]) == len(IDS)
    state = FLEET.add(FLEET.drop(state, ["oslo"]), range(100, 100 + BLOCK))
    state, info = FLEET.step(state, np.zeros(len(IDS) - 1 + BLOCK))
    assert state.num_rows == 2 * BLOCK and len(info.ess) == len(state.ids) == len(IDS) - 1 + BLOCK


def test_many_observations_in_one_call_are_what_step_by_step_gives_to_the_last_bit():
    ys = np.asarray(jax.random.normal(jax.random.key(3), (len(IDS), 20)))
    lengths = [20, 3, 0, 17, 20]
    at_once, by_steps = FLEET.run(start(), ys, lengths=lengths), start()
    for now in range(20):
        by_steps, _ = FLEET.step(by_steps, ys[:, now], mask=now < np.array(lengths))
    assert at_once.time.tolist() == by_steps.time.tolist() == lengths
    for one in IDS:
        assert_same(FLEET.one(at_once, one), FLEET.one(by_steps, one))


@pytest.mark.parametrize("lengths", [[1, 2], [-1, 0, 0, 0, 0], [0, 0, 0, 0, 3]])
def test_wrong_lengths_are_refused(lengths):
    with pytest.raises(pf.errors.DataError, match="between 0 and 2 for each of 5"):
        FLEET.run(start(), np.zeros((len(IDS), 2)), lengths=lengths)


def test_a_saved_fleet_goes_on_as_if_it_had_never_stopped(tmp_path):
    state, _ = FLEET.step(start(), YS[0])
    FLEET.save(tmp_path / "fleet.safetensors", state)
    back = FLEET.restore(tmp_path / "fleet.safetensors")
    assert back.ids == state.ids
    back, state = FLEET.add(back, ["kyiv"]), FLEET.add(state, ["kyiv"])
    (back, _), (state, _) = FLEET.step(back, [*YS[1], 0.5]), FLEET.step(state, [*YS[1], 0.5])
    for one in state.ids:
        assert_same(FLEET.one(back, one), FLEET.one(state, one))


def test_a_checkpoint_that_does_not_fit_is_refused(tmp_path):
    state = start()
    FLEET.save(tmp_path / "fleet.safetensors", state)
    with pytest.raises(pf.errors.CheckpointError, match=r"a fleet, not of a filter; read it with Fleet\.restore"):
        pf.restore(tmp_path / "fleet.safetensors", FILTER)
    pf.save(tmp_path / "one.safetensors", FLEET.one(state, 7))
    with pytest.raises(pf.errors.CheckpointError, match=r"a filter, not of a fleet; read it with paramfilter\.restore"):
        FLEET.restore(tmp_path / "one.safetensors")
    with pytest.raises(pf.errors.CheckpointError, match="another filter"):
        Fleet(pf.storvik_filter(MODEL, 16)).restore(tmp_path / "fleet.safetensors")
    with pytest.raises(pf.errors.DataError, match="numbers or texts"):
        FLEET.save(tmp_path / "odd.safetensors", start([("a", 1)]))
