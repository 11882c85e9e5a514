"""Logs in disorder, what becomes of them in batches, and what a fleet makes of the steps."""

import itertools

import hypothesis.strategies as st
import jax
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import paramfilter as pf
from paramfilter.tables import merged

SERIES_AND_SEQ = [("series", "ascending"), ("seq", "ascending")]

one_event = st.tuples(
    st.sampled_from("abc"), st.integers(1, 40), st.sampled_from([0, 0, 0, 1]), st.sampled_from([0.5, -1.5, None])
)
in_order = st.builds(
    lambda name, first, count: [(name, first + number, 0, number / 10) for number in range(count)],
    st.sampled_from("abc"),
    st.integers(1, 20),
    st.integers(0, 40),
)
in_disorder = st.lists(st.one_of(in_order, st.lists(one_event, max_size=5)), max_size=6).map(
    lambda parts: [*itertools.chain(*parts)]
)
"""Events (series, seq, epoch, y) with gaps, repeats and new epochs, and stretches in order."""


def cut(log, cuts):
    """Cut a log into batches; a number beyond its end cuts nothing."""
    ends = [0, *sorted({one for one in cuts if 0 < one < len(log)}), len(log)]
    return [log[start:stop] for start, stop in itertools.pairwise(ends) if stop > start]


def in_batches(table, batches, states=None):
    """Return states, outputs and what is put aside, sorted by series and step."""
    states, outputs, aside = (
        states or table.empty(),
        [table.output_schema.empty_table()],
        [table.aside_schema.empty_table()],
    )
    for events in batches:
        changed, *said = table.advance(states, events)
        states = merged(states, changed)
        outputs.append(said[0])
        aside.append(said[1])
    outputs = pa.concat_tables(outputs).sort_by(SERIES_AND_SEQ).combine_chunks()
    return states.sort_by("series").combine_chunks(), outputs, pa.concat_tables(aside).combine_chunks()


def by_a_fleet(table, outputs, told=None):
    """Return the states, as bytes by series, and the scores of a fleet that takes the steps of the outputs.

    `told` maps a series and a step to its inputs.
    """
    names = sorted(set(outputs["series"].to_pylist()))
    rows, fleet = [outputs.filter(pc.equal(outputs["series"], name)) for name in names], pf.Fleet(table.filter)
    lengths = [len(one) for one in rows]
    for one in rows:
        assert one["seq"].to_pylist() == list(range(1, len(one) + 1))
    shape = table.filter.engine.shapes.y.shape
    columns = [name for name in outputs.column_names if name == "y" or name[:2] == "y_"]
    ys = np.full((len(names), max(lengths), len(columns)), np.nan)
    for row, one in enumerate(rows):
        ys[row, : len(one)] = np.stack([one[name].to_numpy() for name in columns], axis=1)
    inputs, first = None, None
    if told is not None:
        first = jax.tree.map(lambda leaf: np.stack([leaf] * len(names)), table.filter.model.example_inputs)
        inputs = np.zeros((len(names), max(lengths), *table.filter.model.example_inputs.shape), np.float32)
        for row, (name, length) in enumerate(zip(names, lengths, strict=True)):
            inputs[row, :length] = [told[name, seq] for seq in range(1, length + 1)]
    state = fleet.init(jax.random.key(table.seed), names, inputs=first)
    state, scores = fleet.run_scored(state, ys.reshape(*ys.shape[:2], *shape), lengths=lengths, inputs=inputs)
    packed = np.asarray(table._pack(state.series))
    return {name: packed[row].tobytes() for row, name in enumerate(names)}, scores


def states_of(states):
    """Return the states of a table as bytes by series."""
    return dict(zip(states["series"].to_pylist(), states["state"].to_pylist(), strict=True))
