"""`paramfilter run`: a filter over a file, or over a pipe as its lines arrive.

A file is read before it is run, in pieces; a pipe is run line by line. However a run ends (no more rows, an error,
Ctrl-C, SIGTERM), the state and the result of the rows so far are written. A run that took in no row writes nothing.
"""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from tqdm import tqdm

from paramfilter import checkpoint, presets
from paramfilter.cli.matching import Matching
from paramfilter.cli.names import PRESET_SUFFIX
from paramfilter.cli.printing import aside, print_json, print_table, summary_of
from paramfilter.cli.rows import STANDARD_INPUT, Row, each, read
from paramfilter.diagnostics import explain
from paramfilter.errors import DataError
from paramfilter.filters import Filter
from paramfilter.model import StateSpaceModel
from paramfilter.results import save_result, to_datatree
from paramfilter.running import History, concat_histories, run

LARGEST_PIECE = 1_024
"""Rows of a file between two reports; what an interrupt loses at most."""

Piece = tuple[tuple[int, Row], ...]
"""Rows with the numbers of their lines."""


class Skipped:
    """Reports and counts the lines that cannot be used, or stops at the first one."""

    def __init__(self, is_strict: bool):
        self.is_strict, self.count = is_strict, 0

    def __call__(self, number: int, error: Exception) -> None:
        """Skip the line with this number."""
        if self.is_strict:
            raise DataError(f"line {number}: {error}")
        self.count += 1
        aside(f"paramfilter: line {number} is skipped: {error}")


def make_filter(model: StateSpaceModel, name: str, num_particles: int | None) -> Filter:
    """Make a filter by the name of its preset, such as `auto` or `storvik`."""
    if num_particles is None and name not in ("auto", "node"):
        num_particles = presets.USUAL_PARTICLES
    filter = getattr(presets, name + PRESET_SUFFIX)(model, num_particles)
    if filter.choice:
        aside(f"{model.name}: {filter.choice}")
    return filter


def learn(
    model: StateSpaceModel,
    source: str,
    columns: tuple[Sequence[str], Sequence[str], str | None],
    make: Callable[[], Filter],
    files: Mapping[str, Path | None],
    seed: int,
    as_json: bool,
    is_strict: bool,
) -> None:
    """Make a filter, run it over a source, and write what was found.

    Args:
        model: The model.
        source: A file, or - for standard input.
        columns: Those of the observation, of the inputs and of the times.
        make: Makes the filter, once the source is known to be readable.
        files: Where the "result" and the "state" go at the end, and where the state comes "from" at the start.
        seed: Of the filter's key.
        as_json: Write JSON instead of a table.
        is_strict: Stop at the first line that cannot be used.
    """
    out, save, resume = (files[name] for name in ("result", "state", "from"))
    for path in (out, save):
        if path is not None and not path.parent.is_dir():
            raise DataError(f"there is no directory {path.parent} to write {path.name} to; create it first.")
    skipped, is_pipe = Skipped(is_strict), source == STANDARD_INPUT
    names, lines = read(source, skipped)
    matching, filter = Matching(model, names, *columns), make()
    rows = each(lines, matching.checked, skipped)
    if not is_pipe:
        rows = list(rows)
        matching.observations(row for _, row in rows)  # refuses times that go back before anything is run
    begun = None if resume is None else checkpoint.restore(resume, filter)
    state, kept = None, []
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends a run as Ctrl-C does
    bar = tqdm(desc="compiling", unit="row", disable=True if as_json else None)
    try:
        pieces = itertools.batched(rows, 1 if is_pipe else LARGEST_PIECE)
        for state, history, seen in _taken(filter, begun, seed, pieces, matching, skipped):
            if out is not None:
                kept.append((history, seen))
            if is_pipe and as_json:
                print_json(_figures(state, history))
            bar.set_description_str("", refresh=False)
            bar.set_postfix(_means(history), refresh=False)
            bar.update(len(seen))
    except KeyboardInterrupt:
        pass
    finally:
        bar.close()
        if state is not None:
            if save is not None:
                checkpoint.save(save, state)
            if out is not None:
                histories, seen = zip(*kept, strict=True)
                data = matching.observations(itertools.chain(*seen))
                save_result(out, to_datatree(state, concat_histories(*histories), data))
            _report(filter, state, skipped.count, as_json)
            for what, path in {"result": out, "state": save}.items():
                if path is not None:
                    aside(f"{what} written to {path}")
    if state is None:
        raise DataError("no row was taken in, so there is nothing to show or to write.")


def _taken(
    filter: Filter, state: Any, seed: int, pieces: Iterable[Piece], matching: Matching, skipped: Skipped
) -> Iterator[tuple[Any, History, tuple[Row, ...]]]:
    """Run a filter over pieces of rows; yield the state, the history and the rows of each."""
    for piece in pieces:
        numbers, rows = zip(*piece, strict=True)
        try:
            data = matching.observations(rows, has_times=False)
            first = jax.tree.map(lambda leaf: leaf[0], data.inputs)
            begun = filter.init(jax.random.key(seed), first) if state is None else state
            state, history = run(filter, begun, data, progress=False)
        except DataError as error:
            if len(rows) > 1:
                raise
            skipped(numbers[0], error)
        else:
            yield state, history, rows


def _figures(state: Any, history: History) -> dict[str, Any]:
    """Return what is known after the last step of a history."""
    mean, sd = jax.tree.map(lambda leaf: leaf[-1], (history.theta.mean, history.theta.sd))
    figures = {"t": int(state.time), "mean": mean, "sd": sd, "ess": history.info.ess[-1]}
    return figures | {"log_evidence": state.log_evidence, "outcome": _in_words(history.info.outcome[-1])}


def _means(history: History) -> dict[str, str]:
    return {name: np.array2string(mean[-1], precision=3) for name, mean in history.theta.mean.items()}


def _in_words(outcome: Any) -> str | None:
    return explain(int(outcome)) if outcome else None


def _report(filter: Filter, state: Any, num_skipped: int, as_json: bool) -> None:
    summary = summary_of(filter.posterior(state))
    if as_json:
        found = {"model": filter.model.name, "observations": int(state.time), "skipped": num_skipped}
        found |= {"log_evidence": state.log_evidence, "posterior": summary, "outcome": _in_words(state.outcome)}
        print_json(found)
        return
    size = f"{int(state.time)} observations, {filter.size} {filter.engine.unit}"
    print(f"{filter.model.name}: {size}, log evidence {float(state.log_evidence):.2f}")
    print_table(summary)
    if num_skipped:
        aside(f"skipped lines: {num_skipped}; --strict stops at the first one")
