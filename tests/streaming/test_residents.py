"""A worker's states are a fleet's, to the last bit, and come back from bytes as they were."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import paramfilter as pf
from paramfilter.errors import StoreError
from paramfilter.fleet import Fleet
from paramfilter.fleet.blocks import BLOCK
from paramfilter_streams import FileLog, FleetResidents, Store, Worker
from paramfilter_streams.residents import _shape

FILTER = pf.sir_filter(pf.models.linear_gaussian(phi=dist.Normal(0.0, 0.5), r=0.5), 16)
RESIDENTS = FleetResidents(FILTER, room=100, seed=5, largest_batch=48)
NAMES = [f"s{number}" for number in range(60)]
YS = np.asarray(jax.random.normal(jax.random.key(1), (4, len(NAMES))), float)


@pytest.fixture(scope="module")
def stepped():
    """Residents after four rounds in batches of odd sizes, and their figures."""
    RESIDENTS.warm_up()
    RESIDENTS.start(NAMES[:7])
    RESIDENTS.start(NAMES[7:])
    for ys in YS:
        figures = np.concatenate([RESIDENTS.step(NAMES[part], [[y] for y in ys[part]], [None] * 60) for part in PARTS])
    return figures


PARTS = slice(0, 50), slice(50, 51), slice(51, 60)


def test_they_are_what_a_fleet_would_be(stepped):
    fleet = Fleet(FILTER)
    state = fleet.init(jax.random.key(5), NAMES)
    for ys in YS:
        state, info = fleet.step(state, ys)
    posterior = FILTER.posterior(fleet.one(state, "s3"))
    for name in (NAMES[0], NAMES[55]):
        ours, theirs = RESIDENTS.one(name), fleet.one(state, name)
        np.testing.assert_array_equal(ours.x, theirs.x)
        np.testing.assert_array_equal(ours.log_weights, theirs.log_weights)
    assert RESIDENTS.columns[:5] == ("mean:phi", "sd:phi", "ess", "log_evidence_increment", "outcome")
    assert RESIDENTS.columns[-5:] == ("y:y", "forecast_mean:y", "forecast_sd:y", "pit:y", "tail_probability:y")
    np.testing.assert_array_equal(stepped[:, -5], YS[-1].astype(np.float32))
    assert stepped[3, 0] == pytest.approx(float(posterior.mean()["phi"]), rel=1e-4)
    np.testing.assert_allclose(stepped[:, 2], info.ess, rtol=1e-5)


def test_rows_come_back_from_bytes_and_go_on_the_same(stepped):
    rows = RESIDENTS.rows(NAMES)
    ys = [[y] for y in YS[0]]
    wanted = RESIDENTS.step(NAMES, ys, [None] * 60)
    after = RESIDENTS.rows(NAMES)
    RESIDENTS.put(NAMES[::-1], [row.tobytes() for row in rows[::-1]])
    np.testing.assert_array_equal(RESIDENTS.rows(NAMES), rows)
    np.testing.assert_array_equal(RESIDENTS.step(NAMES, ys, [None] * 60), wanted)
    np.testing.assert_array_equal(RESIDENTS.rows(NAMES), after)


def test_nothing_is_compiled_after_the_warm_up(stepped):
    assert RESIDENTS._step._cache_size() == RESIDENTS._take._cache_size() == RESIDENTS._start._cache_size() == 1


def test_there_is_room_for_so_many(stepped):
    with pytest.raises(pf.errors.DataError, match="room for 100"):
        RESIDENTS.start([f"t{number}" for number in range(41)])
    with pytest.raises(pf.errors.DataError, match="give more room"):
        FleetResidents(FILTER, room=BLOCK).put(NAMES, [b""] * 60)


def test_rows_come_in_pieces_into_the_rows_that_are_there(stepped):
    """All states at once would need their memory two more times."""
    rows = RESIDENTS.rows(NAMES)
    other = FleetResidents(FILTER, room=100, seed=5, largest_batch=48)
    before = [leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves(other._series) if leaf.dtype == np.float32]
    for part in PARTS:
        other.put(NAMES[part], [row.tobytes() for row in rows[part]])
    np.testing.assert_array_equal(other.rows(NAMES[::-1]), rows[::-1])
    after = [leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves(other._series) if leaf.dtype == np.float32]
    assert before == after, "the large arrays stay where they are"


def test_rows_of_another_size_are_refused(stepped):
    rows = [row.tobytes() for row in RESIDENTS.rows(NAMES)]
    with pytest.raises(StoreError, match=f"{len(rows[0])} bytes"):
        RESIDENTS.put(NAMES, [*rows[:-1], rows[-1] + b"x"])


def test_the_step_of_an_event_that_never_came_is_a_missing_observation(stepped, tmp_path):
    (tmp_path / "log").mkdir()
    with (tmp_path / "log" / "0.jsonl").open("w") as file:
        for sequence, y in ((1, 0.5), (2, "null"), (3, 0.25)):
            file.write(f'{{"series": "told", "seq": {sequence}, "y": {y}}}\n')
            if sequence != 2:
                file.write(f'{{"series": "gone", "seq": {sequence}, "y": {y}}}\n')
    store = Store(tmp_path / "store", RESIDENTS.identity)
    worker = Worker(RESIDENTS, FileLog(tmp_path / "log"), store)
    worker.run(lambda: False, until_idle=True)
    told, gone = worker.latest("told"), worker.latest("gone")
    assert [one.fate for one in told] == ["applied", "missing", "applied"]
    assert [one.fate for one in gone] == ["applied", "filled", "applied"]
    assert RESIDENTS.one("told").time == RESIDENTS.one("gone").time == 3, "the clock is the sequence number"
    assert told[1].figures["log_evidence_increment"] == pytest.approx(0.0, abs=1e-6)
    worker.close()


def test_a_model_of_several_arrays_is_refused():
    with pytest.raises(pf.errors.DataError, match="carries one array"):
        _shape({"left": YS, "right": YS}, "observation")
