"""`paramfilter run`: a filter over a file, or over a pipe as its lines arrive.

However a run ends (no more rows, an error, Ctrl-C, SIGTERM), the state and the result of the rows so far are written.
Only a run that took in no row writes nothing.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import jax
from rich.live import Live
from tqdm import tqdm

from paramfilter import checkpoint
from paramfilter.cli.matching import Matching
from paramfilter.cli.names import PRESET_SUFFIX
from paramfilter.cli.printing import aside, console, print_json, summary_of, table_of
from paramfilter.cli.rows import STANDARD_INPUT, Row, Rows, each, read
from paramfilter.data import Observations
from paramfilter.diagnostics import explain
from paramfilter.errors import DataError
from paramfilter.filters import Filter
from paramfilter.model import StateSpaceModel
from paramfilter.nodes import NodeFilter
from paramfilter.presets import PRESETS, USUAL_PARTICLES
from paramfilter.results import save_result, to_datatree
from paramfilter.running import History, concat_histories, history_row, run

SECONDS_BETWEEN_LINES = 0.2
FIRST_PIECE, LARGEST_PIECE = 16, 1_024
"""Rows of a file between two reports; what an interrupt loses at most."""

Begin = Callable[[Any], Any]
"""From the inputs of the first row to the first state."""


class Skipped:
    """Reports and counts the lines that cannot be used, or stops at the first one."""

    def __init__(self, is_strict: bool):
        self.is_strict, self.count = is_strict, 0

    def __call__(self, number: int, error: Exception) -> None:
        """Skip the line with this number."""
        if self.is_strict:
            raise DataError(f"line {number}: {error}")
        self.count += 1
        print(f"paramfilter: line {number} is skipped: {error}", file=sys.stderr, flush=True)


def make_filter(model: StateSpaceModel, name: str, num_particles: int | None) -> Filter:
    """Make a filter by the name of its preset, such as `auto` or `storvik`."""
    if num_particles is None and name not in ("auto", "node"):
        num_particles = USUAL_PARTICLES
    filter = PRESETS[name + PRESET_SUFFIX](model, num_particles)
    if filter.choice:
        aside.print(f"{model.name}: {filter.choice}")
    return filter


def learn(
    model: StateSpaceModel,
    source: str,
    columns: tuple[tuple[str, ...], tuple[str, ...], str | None],
    make: Callable[[], Filter],
    *,
    seed: int,
    out: Path | None,
    save: Path | None,
    resume: Path | None,
    as_json: bool,
    is_strict: bool,
) -> None:
    """Make a filter, run it over a source, and write what was found.

    Args:
        model: The model.
        source: A file, or - for standard input.
        columns: Those of the observation, of the inputs and of the times.
        make: Makes the filter, once the source is known to be readable.
        seed: Of the filter's key.
        out: Where the result goes.
        save: Where the state goes at the end.
        resume: Where the state comes from at the start.
        as_json: Write JSON instead of tables.
        is_strict: Stop at the first line that cannot be used.
    """
    for path in (out, save):
        if path is not None and not path.parent.is_dir():
            raise DataError(f"there is no directory {path.parent} to write {path.name} to; create it first.")
    skipped, is_pipe = Skipped(is_strict), source == STANDARD_INPUT
    names, rows = read(source, skipped)
    matching, filter = Matching(model, names, *columns), make()

    def begin(inputs: Any) -> Any:
        if resume is not None:
            return checkpoint.restore(resume, filter)
        return filter.init(jax.random.key(seed), inputs)

    rows = each(rows, matching.checked, skipped) if isinstance(rows, Iterator) else rows
    table: Any = [] if is_pipe else [row for _, row in rows] if isinstance(rows, Iterator) else rows
    if is_pipe:
        taken = _follow(filter, begin, rows, matching, skipped, out is not None, as_json)
    else:
        taken = _in_pieces(filter, begin, matching.observations(table))
    state, kept = None, []
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends a run as Ctrl-C does
    try:
        for state, history, row in taken:  # noqa: B007 - the last state is written
            if out is not None:
                kept.append((history, row))
    except KeyboardInterrupt:
        pass
    finally:
        taken.close()
        if state is not None:
            if save is not None:
                checkpoint.save(save, state)
            if out is not None:
                histories, seen = zip(*kept, strict=True)
                history = concat_histories(*histories)
                seen = matching.observations(seen if is_pipe else table[: len(history)])
                save_result(out, to_datatree(state, history, seen))
            _report(filter, state, skipped.count, as_json, {"result": out, "state": save})
    if state is None:
        raise DataError("no row was taken in, so there is nothing to show or to write.")


def _in_pieces(filter: Filter, begin: Begin, data: Observations) -> Generator[tuple[Any, History, None]]:
    """Take in a file piece by piece; yield the state and the history of each."""
    state, start, size = None, 0, FIRST_PIECE
    with tqdm(total=len(data), desc="compiling", unit="row", disable=None) as bar:
        while start < len(data):
            part = slice(start, start + size)
            ys, inputs = jax.tree.map(lambda leaf, part=part: leaf[part], (data.ys, data.inputs))
            state = begin(jax.tree.map(lambda leaf: leaf[0], inputs)) if state is None else state
            state, history = run(filter, state, ys, inputs, progress=False)
            yield state, history, None
            start, size = start + len(history), min(4 * size, LARGEST_PIECE)
            bar.set_description_str("", refresh=False)
            bar.update(len(history))


def _follow(
    filter: Filter, begin: Begin, rows: Rows, matching: Matching, skipped: Skipped, is_kept: bool, as_json: bool
) -> Generator[tuple[Any, History | None, Row]]:
    """Take in each row of a pipe as it comes, and show what is known now; yield the state, its history and the row."""
    state, shown, is_shown = None, 0.0, console.is_terminal and not as_json
    with Live(console=console, transient=True, auto_refresh=False) if is_shown else nullcontext() as live:
        for number, row in rows:
            try:
                y, inputs = matching.one(row)
                state = begin(inputs) if state is None else state
                state, info = filter.step(state, y, inputs)
            except DataError as error:
                skipped(number, error)
                continue
            latest = history_row(filter, state, info) if is_kept or as_json else None
            yield state, latest, row
            if as_json and latest is not None:
                theta = jax.tree.map(lambda leaf: leaf[0], latest.theta)
                figures = {"t": int(state.time), "mean": theta.mean, "sd": theta.sd, "ess": info.ess}
                print_json(figures | {"log_evidence": state.log_evidence, "outcome": _in_words(info.outcome)})
            elif live is not None and time.monotonic() - shown > SECONDS_BETWEEN_LINES:
                shown = time.monotonic()
                live.update(_table(filter, state, summary_of(filter.posterior(state))), refresh=True)


def _report(filter: Filter, state: Any, num_skipped: int, as_json: bool, written: dict[str, Path | None]) -> None:
    summary = summary_of(filter.posterior(state))
    if as_json:
        found = {"model": filter.model.name, "observations": int(state.time), "skipped": num_skipped}
        found |= {"log_evidence": state.log_evidence, "posterior": summary, "outcome": _in_words(state.outcome)}
        print_json(found)
        return
    console.print(_table(filter, state, summary))
    if num_skipped:
        aside.print(f"skipped lines: {num_skipped}; --strict stops at the first one")
    for what, path in written.items():
        if path is not None:
            aside.print(f"{what} written to {path}")


def _in_words(outcome: Any) -> str | None:
    return explain(int(outcome)) if outcome else None


def _table(filter: Filter, state: Any, summary: dict[str, dict[str, float]]) -> Any:
    size = f"{filter.size} {'nodes' if isinstance(filter, NodeFilter) else 'particles'}"
    heading = f"{filter.model.name}: {int(state.time)} observations, {size}, log evidence"
    return table_of(summary, f"{heading} {float(state.log_evidence):.2f}")
