"""Tables of observations become tables of posteriors, whatever their order and whoever does it, once."""

import sys

import jax
import numpy as np
import numpyro.distributions as dist
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paramfilter as pf
from paramfilter import errors
from paramfilter_streams.backfilling import Columns, backfill, share_out
from paramfilter_streams.backfilling.worker import _room

NUM_SERIES, NUM_TIMES = 40, 12


def make_filter():
    return pf.storvik_filter(pf.models.linear_gaussian(phi=dist.Normal(0.0, 0.5), r=0.5), 32)


@pytest.fixture(scope="module")
def rows():
    """Ragged series, in no order, with a value missing."""
    names = np.array([f"s{number}" for number in range(NUM_SERIES)])
    lengths = 1 + np.arange(NUM_SERIES) % NUM_TIMES
    ys = np.asarray(jax.random.normal(jax.random.key(0), (lengths.sum(),)), float)
    ys[5] = np.nan
    table = {
        "series": np.repeat(names, lengths),
        "time": np.concatenate([np.arange(length) for length in lengths]),
        "y": ys,
    }
    order = np.asarray(jax.random.permutation(jax.random.key(1), len(ys)))
    return {name: column[order] for name, column in table.items()}


@pytest.fixture(scope="module")
def shared_out(rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    pq.write_table(pa.table(rows), folder / "raw.parquet")
    share_out(folder / "raw.parquet", folder / "shared", num_files=3, rows_at_a_time=50)
    return folder / "shared"


@pytest.fixture(scope="module")
def posteriors(shared_out, tmp_path_factory):
    target = tmp_path_factory.mktemp("posteriors")
    report = backfill(make_filter, shared_out, target, seed=7)
    assert (report.num_files, report.num_done_before, report.num_series) == (3, 0, NUM_SERIES)
    assert report.num_observations == sum(1 + number % NUM_TIMES for number in range(NUM_SERIES))
    return target


def read(folder):
    """Return all rows of a folder by series."""
    table = pa.concat_tables([pq.read_table(file) for file in sorted(folder.glob("*.parquet"))])
    return {row["series"]: row for row in table.to_pylist()}


def test_files_hold_whole_series_and_all_rows(rows, shared_out):
    parts = [pq.read_table(file) for file in sorted(shared_out.iterdir())]
    owners = [set(part["series"].to_pylist()) for part in parts]
    assert len(parts) == 3 and sum(map(len, owners)) == len(set.union(*owners)) == NUM_SERIES
    found = sorted(zip(*(pa.concat_tables(parts)[name].to_pylist() for name in ("series", "time")), strict=True))
    assert found == sorted(zip(rows["series"].tolist(), rows["time"].tolist(), strict=True))


def test_a_row_is_what_the_series_own_fleet_gives(rows, posteriors):
    """The states are the same bits; their means and sds are computed by two programs, which may round differently."""
    fleet, found = pf.Fleet(make_filter()), read(posteriors)
    for name in ("s3", "s11", "s25"):
        mine = rows["series"] == name
        ys = rows["y"][mine][np.argsort(rows["time"][mine])]
        state = fleet.run(fleet.init(jax.random.key(7), [name]), ys[None])
        row = found[name]
        assert row["num_observations"] == len(ys) and row["outcome"] == int(state.series.outcome[0])
        assert row["phi_mean"] == pytest.approx(float(fleet.mean(state)["phi"][0]), rel=3e-7)
        assert row["phi_sd"] == pytest.approx(float(fleet.sd(state)["phi"][0]), rel=3e-7)
        assert row["log_evidence"] == pytest.approx(float(fleet.one(state, name).log_evidence), rel=1e-6)


def test_what_is_done_is_not_done_again_and_what_is_lost_comes_back_the_same(shared_out, posteriors):
    before = read(posteriors)
    lost, kept = sorted(posteriors.iterdir())[:2]
    lost.unlink()
    written = kept.stat().st_mtime_ns
    report = backfill(make_filter, shared_out, posteriors, seed=7)
    assert (report.num_files, report.num_done_before) == (1, 2)
    assert kept.stat().st_mtime_ns == written
    assert read(posteriors) == before
    assert backfill(make_filter, shared_out, posteriors, seed=7).num_files == 0


@pytest.mark.slow
def test_ray_actors_give_the_same(shared_out, posteriors, tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_worker_niceness", "0")  # others may be running tests
    report = backfill(make_filter, shared_out, tmp_path / "by_actors", seed=7, num_workers=2)
    assert report.num_files == 3
    assert read(tmp_path / "by_actors") == read(posteriors)


@pytest.mark.slow
def test_going_on_from_kept_states_is_as_good_as_never_having_stopped(rows, posteriors, tmp_path):
    early = rows["time"] < 4
    for name, mask in (("early", early), ("late", ~early)):
        pq.write_table(pa.table({key: column[mask] for key, column in rows.items()}), tmp_path / f"{name}.parquet")
        share_out(tmp_path / f"{name}.parquet", tmp_path / name, num_files=1)
    backfill(make_filter, tmp_path / "early", tmp_path / "one", seed=7, keep_states=tmp_path / "states")
    backfill(make_filter, tmp_path / "late", tmp_path / "two", seed=7, start_from=tmp_path / "states")
    assert read(tmp_path / "two") == read(posteriors)


@pytest.mark.slow
def test_vectors_and_inputs_have_a_column_for_each_component(tmp_path):
    def make():
        model = pf.StateSpaceModel(
            prior={"slope": dist.Normal(0.0, 1.0).expand([2]).to_event(1)},
            initial=lambda theta, inputs: dist.Normal(0.0, 0.1).expand([2]).to_event(1),
            transition=lambda theta, x, inputs: dist.Normal(theta["slope"] * inputs, 0.1).to_event(1),
            observation=lambda theta, x, inputs: dist.Normal(x, 0.1).to_event(1),
            example_inputs=1.0,
        )
        return pf.ParticleFilter(model, 64, pf.particles.Conjugate())

    pushes = np.tile([1.0, -1.0], 10)
    table = {"series": np.zeros(20, int), "left": 0.5 * pushes, "right": -0.7 * pushes, "push": pushes}
    pq.write_table(pa.table(table), tmp_path / "one.parquet")
    columns = Columns(time=None, y=("left", "right"), inputs="push")
    backfill(make, tmp_path / "one.parquet", tmp_path / "found", columns=columns)
    (row,) = read(tmp_path / "found").values()
    assert row["slope_mean[0]"] == pytest.approx(0.5, abs=0.1) and row["slope_mean[1]"] == pytest.approx(-0.7, abs=0.1)


def test_few_sizes_of_fleets_are_compiled():
    assert len({_room(size) for size in range(4000, 4100)}) == 2
    assert all(size <= _room(size) <= 1.13 * size + 1 for size in range(1, 5000))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"columns": Columns(y="price")}, r"no column \['price'\].*columns=Columns"),
        ({"columns": Columns(y="series")}, "column 'series'.*not numbers"),
        ({"columns": Columns(series="y")}, "whole numbers or texts"),
        ({"source": "nowhere"}, "no Parquet file at"),
        ({"target": "posteriors", "seed": 8}, "another seed"),
    ],
)
def test_mistakes_are_named(change, words, shared_out, posteriors, tmp_path):
    places = {"shared": shared_out, "posteriors": posteriors, "nowhere": tmp_path / "nowhere", "new": tmp_path / "new"}
    given = {"source": "shared", "target": "new", **change}
    given |= {name: places[given[name]] for name in ("source", "target")}
    with pytest.raises(pf.errors.DataError, match=words):
        backfill(make_filter, **given)


def test_a_target_that_is_there_is_not_mixed_up_with(shared_out, tmp_path):
    with pytest.raises(pf.errors.DataError, match="there already"):
        share_out(shared_out, tmp_path, num_files=2)
    with pytest.raises(pf.errors.DataError, match="no column 'id'"):
        share_out(shared_out, tmp_path / "new", num_files=2, series="id")


def test_a_missing_extra_names_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(pf.errors.MissingExtraError, match=r'pip install "paramfilter\[backfill\]"'):
        errors.extra("pyarrow.parquet", "backfill")
