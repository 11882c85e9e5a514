"""Columns and the ledger agree: whichever way events take, and however they are cut into batches."""

import itertools

import hypothesis
import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
import pyarrow as pa

from paramfilter.tables.arriving import FATES, Books, arrive
from paramfilter.tables.events import Events, Flat
from paramfilter.tables.ordering import Event, Ledger, Rules

Y = Flat.of(jnp.zeros(2))
WHOLE = ("seq", "epoch", "place")
SCHEMA = pa.schema(
    [("series", pa.string()), ("y", Y.type), ("at", pa.float64()), *((name, pa.int64()) for name in WHOLE)]
)
BLANK = pa.schema([("series", pa.string()), ("seq", pa.int64()), ("epoch", pa.int64()), ("ledger", pa.binary())])


def in_columns(rules, batches):
    """Return the steps, what is put aside, and the rows of the series in the end."""
    rows, steps, aside = {}, [], []
    for batch in batches:
        columns = dict(zip(("series", "seq", "epoch", "y"), zip(*batch, strict=True), strict=True))
        events = Events.read(pa.table(columns), SCHEMA, Y, Flat.of(None))
        names = events.names.to_pylist()
        known = [name for name in reversed(names) if name in rows]
        places = np.array([names.index(name) for name in known], int)
        table = pa.Table.from_pylist([rows[name] for name in known], schema=BLANK)
        books = Books.read(table, places, len(names))
        taken, late, is_changed = arrive(rules, books, np.isin(np.arange(len(names)), places), events)
        for code, seq, fate, y in zip(taken.code, taken.seq, taken.fate, taken.y, strict=True):
            steps.append((names[code], int(seq), FATES[fate], str(y.tolist())))
        aside += [(*batch[one.event][:3], one.fate, one.reason) for one in late]
        some = np.flatnonzero(is_changed)
        for code, ledger in zip(some.tolist(), books.column(some).to_pylist(), strict=True):
            numbers = {"seq": int(books.sequence[code]), "epoch": int(books.epoch[code])}
            rows[names[code]] = {"series": names[code], **numbers, "ledger": ledger}
    return steps, aside, rows


def one_by_one(rules, events):
    """Return the same by the ledger alone."""
    ledgers, steps, aside, changed = {}, [], [], set()
    for name, seq, epoch, y in events:
        y = [np.nan if one is None else one for one in y]
        arrival = rules.arrive(ledgers.setdefault(name, Ledger()), Event(seq, y, None, epoch))
        if arrival.fate is not None:
            aside.append((name, seq, epoch, arrival.fate.value, arrival.reason))
            continue
        changed.add(name)
        for step in arrival.steps:
            values = [np.nan, np.nan] if step.event is None else step.event.y
            steps.append((name, step.sequence, step.fate or "filled", str(values)))
    return steps, aside, {name: (ledgers[name].sequence, ledgers[name].epoch) for name in changed}


numbers = st.one_of(st.none(), st.integers(-3, 3).map(float))
events = st.tuples(st.sampled_from("abc"), st.integers(1, 90), st.integers(0, 2), st.tuples(numbers, numbers))
in_order = st.builds(
    lambda name, first, count: [(name, first + number, 0, (1.0, None)) for number in range(count)],
    st.sampled_from("abc"),
    st.integers(1, 70),
    st.integers(0, 75),
)
logs = st.lists(st.one_of(in_order, st.lists(events, max_size=4)), max_size=8).map(
    lambda parts: [*itertools.chain(*parts)]
)
rules = st.builds(Rules, reorder=st.integers(0, 4), fill_gaps=st.booleans(), longest_gap=st.sampled_from([5, 1000]))


@hypothesis.settings(max_examples=150)
@hypothesis.given(rules, logs, st.sets(st.integers(1, 200)))
def test_batches_are_one_log(rules, log, cuts):
    ends = [0, *sorted(cut for cut in cuts if cut < len(log)), len(log)]
    batches = [log[start:stop] for start, stop in itertools.pairwise(ends) if stop > start]
    steps, aside, rows = in_columns(rules, batches)
    own_steps, own_aside, ends = one_by_one(rules, log)
    assert sorted(steps) == sorted(own_steps) and aside == own_aside
    assert {name: (row["seq"], row["epoch"]) for name, row in rows.items()} == ends
    assert rows == in_columns(rules, [log] if log else [])[2]


def test_a_ledger_is_null_for_as_long_as_nothing_has_to_be_remembered():
    event = lambda seq, epoch=0: ("a", seq, epoch, (0.0, 0.0))
    ledger = lambda *batches: in_columns(Rules(reorder=1), batches)[2]["a"]["ledger"]
    assert ledger([event(1, 7)], [event(2, 7)]) is None
    assert len(ledger([event(2)])) > 17 and ledger([event(2)], [event(1)]) is None
    assert len(ledger([event(1)], [event(1, 2)])) == 17
