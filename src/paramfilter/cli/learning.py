"""`paramfilter run`: a filter over a file, or over a pipe as its lines arrive.

However a run ends (no more rows, an error, Ctrl-C, SIGTERM), the state and the result of the rows so far are written.
Only a run that took in no row writes nothing.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
from rich.live import Live
from tqdm import tqdm

from paramfilter import checkpoint
from paramfilter.auto import USUAL_PARTICLES
from paramfilter.cli.matching import Matching
from paramfilter.cli.names import PRESET_SUFFIX
from paramfilter.cli.printing import aside, console, print_json, summary_of, table_of
from paramfilter.cli.rows import STANDARD_INPUT, Row, Rows, each, read
from paramfilter.data import Observations
from paramfilter.diagnostics import explain
from paramfilter.errors import DataError
from paramfilter.filters import Filter, StepInfo
from paramfilter.model import StateSpaceModel
from paramfilter.nodes import NodeFilter
from paramfilter.presets import PRESETS
from paramfilter.results import save_result, to_datatree
from paramfilter.running import History, concat_histories, history_row, run
from paramfilter.types import Inputs

SECONDS_BETWEEN_LINES = 0.2
FIRST_PIECE, LARGEST_PIECE = 16, 1_024
"""Rows of a file between two reports; what an interrupt loses at most."""


@dataclass(frozen=True)
class Settings:
    """What was asked for.

    Attributes:
        filter: Name of the preset.
        num_particles: N; None for what suits the filter.
        source: A file, or - for standard input.
        y: Columns of the observation.
        inputs: Columns of the inputs.
        time: Column of times.
        seed: Of the filter's key.
        out: Where the result goes.
        save: Where the state goes at the end.
        resume: Where the state comes from at the start.
        as_json: Write JSON instead of tables.
        is_strict: Stop at the first line that cannot be used.
    """

    filter: str
    num_particles: int | None
    source: str
    y: tuple[str, ...]
    inputs: tuple[str, ...]
    time: str | None
    seed: int
    out: Path | None
    save: Path | None
    resume: Path | None
    as_json: bool
    is_strict: bool


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


def learn(model: StateSpaceModel, settings: Settings) -> None:
    """Make a filter, run it over a source, and write what was found."""
    for path in (settings.out, settings.save):
        if path is not None and not path.parent.is_dir():
            raise DataError(f"there is no directory {path.parent} to write {path.name} to; create it first.")
    skipped = Skipped(settings.is_strict)
    names, rows = read(settings.source, skipped)
    matching = Matching(model, names, settings.y, settings.inputs, settings.time)
    filter = make_filter(model, settings.filter, settings.num_particles)
    rows = each(rows, matching.checked, skipped) if isinstance(rows, Iterator) else rows
    if settings.source == STANDARD_INPUT:
        taken = _follow(filter, rows, matching, settings, skipped)
    else:
        rows = [row for _, row in rows] if isinstance(rows, Iterator) else rows
        taken = _in_pieces(filter, matching.observations(rows), settings)
    state, kept = None, []
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends a run as Ctrl-C does
    try:
        for state, history, row in taken:  # noqa: B007 - the last state is written
            if settings.out is not None:
                kept.append((history, row))
    except KeyboardInterrupt:
        pass
    finally:
        taken.close()
        if state is not None:
            _write(state, kept, rows, matching, settings)
            _report(filter, state, settings, skipped)
    if state is None:
        raise DataError("no row was taken in, so there is nothing to show or to write.")


def _write(
    state: Any, kept: list[tuple[History, Row | None]], rows: Any, matching: Matching, settings: Settings
) -> None:
    """Write the state and the result, where that is wanted."""
    if settings.save is not None:
        checkpoint.save(settings.save, state)
    if settings.out is not None:
        histories, seen = zip(*kept, strict=True)
        history = concat_histories(*histories)
        seen = seen if settings.source == STANDARD_INPUT else rows[: len(history)]
        save_result(settings.out, to_datatree(state, history, matching.observations(seen)))


def _first_state(filter: Filter, inputs: Inputs, settings: Settings) -> Any:
    if settings.resume is not None:
        return checkpoint.restore(settings.resume, filter)
    return filter.init(jax.random.key(settings.seed), inputs)


def _in_pieces(filter: Filter, data: Observations, settings: Settings) -> Generator[tuple[Any, History, None]]:
    """Take in a file piece by piece; yield the state and the history of each."""
    state, start, size = None, 0, FIRST_PIECE
    with tqdm(total=len(data), desc="compiling", unit="row", disable=None) as bar:
        while start < len(data):
            part = slice(start, start + size)
            ys, inputs = jax.tree.map(lambda leaf, part=part: leaf[part], (data.ys, data.inputs))
            first = jax.tree.map(lambda leaf: leaf[0], inputs)
            state = _first_state(filter, first, settings) if state is None else state
            state, history = run(filter, state, ys, inputs, progress=False)
            yield state, history, None
            start, size = start + len(history), min(4 * size, LARGEST_PIECE)
            bar.set_description_str("", refresh=False)
            bar.update(len(history))


def _follow(
    filter: Filter, rows: Rows, matching: Matching, settings: Settings, skipped: Skipped
) -> Generator[tuple[Any, History | None, Row]]:
    """Take in each row of a pipe as it comes, and show what is known now; yield the state, its history and the row."""
    state, shown = None, 0.0
    is_recorded = settings.out is not None or settings.as_json
    is_shown = console.is_terminal and not settings.as_json
    with Live(console=console, transient=True, auto_refresh=False) if is_shown else nullcontext() as live:
        for number, row in rows:
            try:
                y, inputs = matching.one(row)
                state = _first_state(filter, inputs, settings) if state is None else state
                state, info = filter.step(state, y, inputs)
            except DataError as error:
                skipped(number, error)
                continue
            latest = history_row(filter, state, info) if is_recorded else None
            yield state, latest, row
            if settings.as_json and latest is not None:
                print_json(_line(state, latest, info))
            elif live is not None and time.monotonic() - shown > SECONDS_BETWEEN_LINES:
                shown = time.monotonic()
                live.update(table_of(summary_of(filter.posterior(state)), _heading(filter, state)), refresh=True)


def _line(state: Any, latest: History, info: StepInfo) -> dict[str, Any]:
    theta = jax.tree.map(lambda leaf: leaf[0], latest.theta)
    return {
        "t": int(state.time),
        "mean": theta.mean,
        "sd": theta.sd,
        "ess": info.ess,
        "log_evidence": state.log_evidence,
        "outcome": explain(int(info.outcome)) if int(info.outcome) else None,
    }


def _report(filter: Filter, state: Any, settings: Settings, skipped: Skipped) -> None:
    summary = summary_of(filter.posterior(state))
    if settings.as_json:
        found = {"model": filter.model.name, "observations": int(state.time), "skipped": skipped.count}
        outcome = explain(int(state.outcome)) if state.outcome else None
        print_json(found | {"log_evidence": state.log_evidence, "posterior": summary, "outcome": outcome})
        return
    console.print(table_of(summary, _heading(filter, state)))
    if skipped.count:
        aside.print(f"skipped lines: {skipped.count}; --strict stops at the first one")
    for path, what in ((settings.out, "result"), (settings.save, "state")):
        if path is not None:
            aside.print(f"{what} written to {path}")


def size_of(filter: Filter) -> str:
    """Say how many nodes or particles a filter has."""
    return f"{filter.size} {'nodes' if isinstance(filter, NodeFilter) else 'particles'}"


def _heading(filter: Filter, state: Any) -> str:
    return (
        f"{filter.model.name}: {int(state.time)} observations, {size_of(filter)}, log evidence "
        f"{float(state.log_evidence):.2f}"
    )
