"""One look at a run: what went well, what did not, what it means and what to try."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

import jax
import numpy as np

from paramfilter.arguments import require_kind
from paramfilter.diagnostics import codes
from paramfilter.diagnostics.codes import Code
from paramfilter.filters import FilterState, StepInfo
from paramfilter.outcome import Outcome
from paramfilter.ranks import chance_of_ranks
from paramfilter.running import History

LONG_AGO = 0.25
"""In multiples of N: beliefs that were mixed since then do not ride on paths."""

LEAST_ESS = 0.05
"""Median effective sample size, as a share of N, below which there is a warning."""

RHAT_LIMIT = 1.1
"""R-hat above which islands disagree: their spread adds a tenth to the posterior sd."""

SURPRISE_LIMIT = 1e-6
"""Probability of ranks as uneven as these, if the model were right, below which there is a warning."""

WIDTH, INDENT = 100, "      "

NUM_BINS = 10
FEWEST_RANKS = 50


@dataclass(frozen=True)
class Finding:
    """One warning, with the figures that led to it."""

    code: Code
    figures: str

    def __str__(self) -> str:
        meaning = self.code.meaning[0].upper() + self.code.meaning[1:]
        paragraphs = (f"{self.code.title}: {self.figures}", meaning, f"Try: {self.code.cure}")
        indented = [textwrap.fill(text, WIDTH, initial_indent=INDENT, subsequent_indent=INDENT) for text in paragraphs]
        return "\n".join([f"  {self.code.code} {indented[0].lstrip()}", *indented[1:]])


@dataclass(frozen=True)
class Diagnosis:
    """What a run looks like.

    Attributes:
        heading: How many steps and particles.
        num_checks: How many things were looked at.
        findings: What was wrong; empty if all is well.
    """

    heading: str
    num_checks: int
    findings: tuple[Finding, ...]

    @property
    def is_well(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def __str__(self) -> str:
        if self.is_well:
            return f"{self.heading}\nAll {self.num_checks} checks passed: no problem was found."
        passed = self.num_checks - len(self.findings)
        return "\n".join(
            [self.heading, f"{passed} checks passed, {len(self.findings)} did not:", *map(str, self.findings)]
        )


@dataclass(frozen=True)
class Record:
    """All that the checks look at.

    Attributes:
        made_by: Fingerprint of the filter, as JSON.
        time: How many observations have been taken in.
        mixed_at: When beliefs were last mixed; -1 if never.
        outcome: All flags raised so far.
        info: What happened at each step of the history.
    """

    made_by: str
    time: int
    mixed_at: int
    outcome: int
    info: StepInfo


def diagnose(state: FilterState, history: History) -> Diagnosis:
    """Look at a run, print what was found, and return it.

    Args:
        state: The state after the run.
        history: What `run` recorded.
    """
    for value, kind, name in ((state, FilterState, "state"), (history, History, "history")):
        require_kind(value, kind, name, "The call is diagnose(state, history), with both as run returned them.")
    record = Record(state.made_by, int(state.time), int(state.mixed_at), int(state.outcome), history.info)
    diagnosis = examine(record)
    print(diagnosis)
    return diagnosis


def examine(record: Record) -> Diagnosis:
    """Look at a record, of a run or of a saved result."""
    made_by, info = json.loads(record.made_by), record.info
    num_particles, num_islands = made_by["particles"], made_by["islands"]
    islands = " in one island (so W03 is not judged)" if num_islands == 1 else f" in {num_islands} islands"
    heading = f"{made_by['model']}: {len(info.ess)} steps, {num_particles} particles{islands}, {made_by['belief']}"
    checks = (
        _check_weights(info, num_particles),
        None if _is_mixed(record, num_particles) else _check_ancestors(info, num_particles, num_islands),
        _check_islands(info, made_by["coordinates"]),
        _check_forecasts(info),
    )
    flagged = tuple(_check_flags(info, record.outcome))
    found = tuple(sorted((f for f in (*checks, *flagged) if f is not None), key=lambda f: f.code.code))
    return Diagnosis(heading, len(codes.CODES) - (num_islands == 1), found)


def _check_weights(info: StepInfo, num_particles: int) -> Finding | None:
    shares = np.asarray(info.ess) / num_particles
    if np.median(shares) >= LEAST_ESS:
        return None
    return Finding(codes.FEW_EFFECTIVE, f"the median effective sample size is {np.median(shares):.1%} of N.")


def _is_mixed(record: Record, num_particles: int) -> bool:
    """Tell whether beliefs were mixed from two ancestors not long ago, so that they do not ride on paths."""
    return record.mixed_at >= 0 and record.time - record.mixed_at <= LONG_AGO * num_particles


def _check_ancestors(info: StepInfo, num_particles: int, num_islands: int) -> Finding | None:
    left = int(np.asarray(info.num_ancestors)[-1])
    if left > num_islands:
        return None
    whose = "one" if num_islands == 1 else "one an island"
    return Finding(codes.FEW_ANCESTORS, f"of {num_particles} ancestors before half time {whose} is left.")


def _check_islands(info: StepInfo, coordinates: list[str]) -> Finding | None:
    last = np.asarray(info.rhat)[-1]
    if not np.any(last > RHAT_LIMIT):
        return None
    worst = ", ".join(
        f"{name} {value:.2f}" for name, value in zip(coordinates, last, strict=True) if value > RHAT_LIMIT
    )
    since = np.argmax(np.max(np.asarray(info.rhat), axis=1) > RHAT_LIMIT) + 1
    return Finding(codes.DISAGREEMENT, f"R-hat is {worst} (limit {RHAT_LIMIT}), above the limit first at step {since}.")


def _check_forecasts(info: StepInfo) -> Finding | None:
    for path, leaf in jax.tree_util.tree_leaves_with_path(info.pit):
        ranks = np.reshape(np.asarray(leaf), (len(leaf), -1))
        for component in range(ranks.shape[1]):
            seen = ranks[:, component][~np.isnan(ranks[:, component])]
            if len(seen) >= FEWEST_RANKS and (chance := chance_of_ranks(seen, NUM_BINS)) < SURPRISE_LIMIT:
                name = f"y{jax.tree_util.keystr(path)}" + (f"[{component}]" if ranks.shape[1] > 1 else "")
                counts = np.histogram(seen, NUM_BINS, (0, 1))[0]
                return Finding(
                    codes.SURPRISED,
                    f"{name}: tenths of the forecasts hold {counts.tolist()} observations (p = {chance:.0e}).",
                )
    return None


def _check_flags(info: StepInfo, outcome: int) -> Iterator[Finding]:
    outcomes = np.asarray(info.outcome)
    for code in dict.fromkeys(codes.OF_FLAG.values()):
        flags = sum(flag for flag, its in codes.OF_FLAG.items() if its is code)
        times = np.flatnonzero(outcomes & int(flags))
        if len(times):
            share = f"{len(times)} of {len(outcomes)} steps, first at step {times[0] + 1}, last at {times[-1] + 1}"
            largest = np.max(np.nan_to_num(np.asarray(info.approximation_error), nan=np.inf))
            extra = f"; the largest error was {largest:.2g} nats" if code is codes.INACCURATE else ""
            yield Finding(code, f"in {share}{extra}.")
        elif Outcome(outcome) & Outcome(int(flags)):
            yield Finding(code, "before the steps of this history.")
