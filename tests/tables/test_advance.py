"""A table's states are a fleet's, however the events are cut; and tables of something else are refused."""

import jax
import numpy as np
import numpyro.distributions as dist
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import paramfilter as pf
from paramfilter.errors import DataError, StoreError
from paramfilter.tables import Rules, StateTable, group_of, merged

MODEL = pf.models.linear_gaussian(phi=dist.Normal(0.0, 0.5), r=0.5)
FILTER = pf.storvik_filter(MODEL, 64)
NAMES = [f"sensor-{number}" for number in range(20)]
NUM_TIMES = 6


@pytest.fixture(scope="module")
def table():
    return StateTable(FILTER, seed=3)


@pytest.fixture(scope="module")
def ys():
    values = np.array(jax.random.normal(jax.random.key(1), (len(NAMES), NUM_TIMES)))
    values[3, 2] = np.nan
    return values


@pytest.fixture(scope="module")
def events(ys):
    series = np.repeat(NAMES, NUM_TIMES)
    return pa.table({"series": series, "seq": np.tile(np.arange(1, NUM_TIMES + 1), len(NAMES)), "y": ys.ravel()})


def in_batches(table, states, *batches):
    outputs, aside = [], []
    for events in batches:
        changed, *rest = table.advance(states, events)
        states = merged(states, changed)
        outputs.append(rest[0])
        aside.append(rest[1])
    return (
        states.sort_by("series"),
        pa.concat_tables(outputs).sort_by([("series", "ascending"), ("seq", "ascending")]),
        pa.concat_tables(aside),
    )


def test_states_are_those_of_a_fleet(table, events, ys):
    states, outputs, aside = in_batches(table, table.empty(), events)
    fleet = pf.Fleet(FILTER)
    end = fleet.run(fleet.init(jax.random.key(3), NAMES), ys)
    order = np.argsort(NAMES)
    packed = np.asarray(table._pack(end.series))[: len(NAMES)][order]
    assert states["state"].to_pylist() == [row.tobytes() for row in packed]
    assert not len(aside) and len(outputs) == ys.size
    assert pc.sum(pc.equal(outputs["fate"], "missing")).as_py() == 1
    last = outputs.filter(pc.equal(outputs["seq"], NUM_TIMES))
    np.testing.assert_allclose(last["phi_mean"].to_numpy(), fleet.mean(end)["phi"][order], rtol=1e-5)


def test_batches_change_nothing(table, events):
    whole = in_batches(table, table.empty(), events)
    turn = np.arange(len(events)) % NUM_TIMES
    parts = in_batches(table, table.empty(), *(events.filter(pa.array(turn == one)) for one in range(NUM_TIMES)))
    assert all(first.equals(second) for first, second in zip(whole, parts, strict=True))


def test_what_was_done_is_not_done_again(table, events):
    states, _, _ = in_batches(table, table.empty(), events)
    changed, outputs, aside = table.advance(states, events)
    assert not len(changed) and not len(outputs) and pc.unique(aside["fate"]).to_pylist() == ["duplicate"]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (StateTable(FILTER, seed=4), "seed 3 there, 4 here. Give StateTable the seed"),
        (StateTable(FILTER, seed=3, groups=32), "groups 128 there, 32 here. Give StateTable the number of groups"),
        (StateTable(pf.storvik_filter(MODEL, 32), seed=3), "particles: 64 there, 32 here. Use the filter"),
    ],
)
def test_states_of_another_table_are_refused(table, events, other, message):
    with pytest.raises(StoreError, match=message):
        other.advance(table.empty(), events)


def test_states_that_do_not_say_what_they_are_are_refused(table, events):
    with pytest.raises(StoreError, match="replace_schema_metadata"):
        table.advance(table.empty().replace_schema_metadata(None), events)


def test_columns_are_those_of_events(table, events):
    with pytest.raises(DataError, match="did you mean"):
        table.advance(table.empty(), events.rename_columns(["series", "sec", "y"]))
    with pytest.raises(DataError, match="types"):
        table.advance(table.empty(), events.set_column(2, "y", pa.array(["high"] * len(events))))


def test_rows_that_are_no_events_are_put_aside(table):
    bad = pa.table(
        {
            "series": ["", "a", "a", "a", "a", "a", "a"],
            "seq": [1, 0, 1, 1, 5000, 1, 1],
            "y": [0.0, 0.0, np.inf, 0.0, 0.0, None, 0.0],
            "at": [0.0, 0.0, 0.0, 1e12, 0.0, 0.0, 0.0],
            "epoch": [0, 0, 0, 0, 0, 0, -1],
        }
    )
    _, outputs, aside = table.advance(table.empty(), bad)
    assert outputs.select(["series", "seq", "fate"]).to_pylist() == [{"series": "a", "seq": 1, "fate": "missing"}]
    assert aside["place"].to_pylist() == [0, 1, 2, 3, 4, 6] and set(aside["fate"].to_pylist()) == {"quarantined"}
    words = ["series must", "seq must", "y holds", "at must", "more than 1000 steps", "epoch must"]
    assert all(reason.startswith(word) for reason, word in zip(aside["reason"].to_pylist(), words, strict=True))


def test_events_out_of_order_go_through_the_ledger(table):
    table = StateTable(FILTER, seed=3, rules=Rules(reorder=1))
    of = lambda *numbers: pa.table({"series": ["a"] * len(numbers), "seq": numbers, "y": [float(n) for n in numbers]})
    _, outputs, aside = in_batches(table, table.empty(), of(1, 3), of(2, 2), of(5), of(6, 4, 7))
    assert outputs["seq"].to_pylist() == [1, 2, 3, 4, 5, 6, 7]
    assert outputs["fate"].to_pylist() == ["applied"] * 3 + ["filled"] + ["applied"] * 3
    assert outputs["y"].to_pylist()[2] == 3.0 and outputs["y"].to_pylist()[3] is None
    assert list(zip(aside["seq"].to_pylist(), aside["fate"].to_pylist(), strict=True)) == [
        (2, "duplicate"),
        (4, "late"),
    ]


def test_series_of_which_events_only_wait_do_not_stop_the_others(events):
    table = StateTable(FILTER, seed=3, rules=Rules(reorder=2))
    some = events.filter(pc.not_equal(events["seq"], 1))
    late = events.filter(pa.array([name < "sensor-5" for name in events["series"].to_pylist()]))
    waiting = some.filter(pc.less_equal(some["seq"], 3))
    first, outputs, _ = in_batches(
        table, table.empty(), pa.concat_tables([waiting, late.filter(pc.equal(late["seq"], 1))])
    )
    assert 0 < len(outputs) < len(events)
    states, _, _ = in_batches(table, first, events)
    assert states["state"].equals(in_batches(table, table.empty(), events)[0]["state"])


def test_tables_of_any_library_are_read(table, events):
    expected = in_batches(table, table.empty(), events)[:2]
    frame = polars.from_arrow(events)
    others = {
        "polars": frame.to_arrow(),
        "pandas": pa.Table.from_pandas(events.to_pandas()),
        "pieces": pa.concat_tables([events.slice(start, 7) for start in range(0, len(events), 7)]),
        "dictionary": events.set_column(0, "series", events["series"].dictionary_encode()),
    }
    for name, other in others.items():
        found = in_batches(table, table.empty(), other)[:2]
        assert all(one.equals(two) for one, two in zip(found, expected, strict=True)), name
    changed, outputs, aside = table.advance(table.empty(), events.slice(0, 0))
    assert len(changed) == len(outputs) == len(aside) == 0


def test_the_place_in_the_log_is_the_order_of_arrival(table):
    events = pa.table({"series": ["a"] * 3, "seq": [3, 1, 2], "y": [0.3, 0.1, 0.2], "place": [12, 10, 11]})
    _, outputs, aside = table.advance(table.empty(), events)
    assert outputs["y"].to_pylist() == [0.1, 0.2, 0.3] and not len(aside)
    _, outputs, aside = table.advance(table.empty(), events.drop("place"))
    assert outputs["fate"].to_pylist() == ["filled", "filled", "applied"] and aside["place"].to_pylist() == [1, 2]


def test_rows_of_states_are_one_a_series(table, events):
    changed, _, _ = table.advance(table.empty(), events)
    with pytest.raises(StoreError, match="two rows of series sensor-0"):
        table.advance(pa.concat_tables([changed, changed.slice(0, 1)]), events)
    as_spark_has_it = changed.cast(pa.schema([*list(changed.schema)[:-1], pa.field("state", pa.binary())]))
    as_spark_has_it = as_spark_has_it.replace_schema_metadata(table.state_schema.metadata)
    more = events.set_column(1, "seq", pc.add(events["seq"], NUM_TIMES))
    assert table.advance(as_spark_has_it, more)[0].equals(table.advance(changed, more)[0])


def test_a_group_is_a_hash_of_the_name():
    assert group_of("sensor-7", 128) == 102 and group_of(pa.array(["sensor-7"]), 128).tolist() == [102]
