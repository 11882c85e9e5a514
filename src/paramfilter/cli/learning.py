"""`paramfilter run`: a filter over a file, or over a pipe as its lines arrive."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
from rich.live import Live

from paramfilter import checkpoint
from paramfilter.auto import USUAL_PARTICLES
from paramfilter.cli.matching import Matching
from paramfilter.cli.names import PRESET_SUFFIX
from paramfilter.cli.printing import aside, console, print_json, summary_of, table_of
from paramfilter.cli.rows import STANDARD_INPUT, Row, columns_of_rows, rows_of
from paramfilter.data import Observations
from paramfilter.diagnostics import explain
from paramfilter.errors import DataError
from paramfilter.filters import Filter, StepInfo
from paramfilter.model import StateSpaceModel
from paramfilter.nodes import NodeFilter
from paramfilter.presets import PRESETS
from paramfilter.results import save_result, to_datatree
from paramfilter.running import History, concat_histories, history_row, run

SECONDS_BETWEEN_LINES = 0.2


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
    rows = rows_of(settings.source)
    first = next(rows, None)
    if first is None:
        raise DataError("there are no data: the source holds no row.")
    rows = itertools.chain([first], rows)
    matching = Matching(model, first, settings.y, settings.inputs, settings.time)
    filter = make_filter(model, settings.filter, settings.num_particles)
    state = _first_state(filter, matching, first, settings)
    if settings.source == STANDARD_INPUT:
        state, kept = _follow(filter, state, rows, matching, settings)
    else:
        data = matching.observations(columns_of_rows(rows))
        state, history = run(filter, state, data)
        kept = (history, data)
    if settings.save is not None:
        checkpoint.save(settings.save, state)
    if settings.out is not None and kept is not None:
        save_result(settings.out, to_datatree(state, *kept))
    _report(filter, state, settings)


def _first_state(filter: Filter, matching: Matching, row: Row, settings: Settings) -> Any:
    if settings.resume is not None:
        return checkpoint.restore(settings.resume, filter)
    _, inputs = matching.one(row)
    return filter.init(jax.random.key(settings.seed), inputs)


def _follow(
    filter: Filter, state: Any, rows: Iterator[Row], matching: Matching, settings: Settings
) -> tuple[Any, tuple[History, Observations] | None]:
    """Take in each row as it comes, and show what is known now.

    A pipe may never end, so what has been seen is kept only if it is to be written in the end.
    """
    first_state, kept, shown = state, [], 0.0
    is_kept = settings.out is not None
    is_shown = console.is_terminal and not settings.as_json
    with Live(console=console, transient=True, auto_refresh=False) if is_shown else nullcontext() as live:
        try:
            for row in rows:
                state, info = filter.step(state, *matching.one(row))
                latest = history_row(filter, state, info) if is_kept or settings.as_json else None
                if is_kept:
                    kept.append((latest, row))
                if settings.as_json and latest is not None:
                    print_json(_line(state, latest, info))
                elif live is not None and time.monotonic() - shown > SECONDS_BETWEEN_LINES:
                    shown = time.monotonic()
                    live.update(table_of(summary_of(filter.posterior(state)), _heading(filter, state)), refresh=True)
        except KeyboardInterrupt:  # how one ends a stream; what was learned is kept
            pass
    if state is first_state:
        raise DataError("stopped before the first row was taken in, so there is nothing to show or to write.")
    if not is_kept:
        return state, None
    histories, seen = zip(*kept, strict=True)
    return state, (concat_histories(*histories), matching.observations(columns_of_rows(seen)))


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


def _report(filter: Filter, state: Any, settings: Settings) -> None:
    summary = summary_of(filter.posterior(state))
    if settings.as_json:
        found = {"model": filter.model.name, "observations": int(state.time), "log_evidence": state.log_evidence}
        print_json(found | {"posterior": summary, "outcome": explain(int(state.outcome)) if state.outcome else None})
        return
    console.print(table_of(summary, _heading(filter, state)))
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
