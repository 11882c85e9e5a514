"""One look at a run: which checks passed, what was found, what it means and what to try, and what was not judged.

A check passes only if it had something to judge: particles give no estimate of their error (W14), and most
beliefs never raise some of the flags.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from paramfilter.arguments import require_kind
from paramfilter.diagnostics import codes
from paramfilter.diagnostics.codes import Code
from paramfilter.filters import History, StepInfo
from paramfilter.filters.step_info import NUM_FORECASTS
from paramfilter.numerics.ranks import count_ranks, uniformity_p_value
from paramfilter.outcome import Outcome

LEAST_ESS = 0.05
"""Median effective sample size, or number of distinct values of theta, as a share of N, below which W01 is given."""

LARGEST_ERROR = 0.25
"""Estimated error of a posterior mean, in posterior sds, above which W14 is given."""

MANY_MISSING = 0.1
"""Share of steps without an observation from which the heading tells of them."""

SURPRISE_LIMIT = 1e-6
"""Probability of ranks as uneven as these, if the model were right, below which there is a warning."""

NUM_BINS = 10
NUM_RANKS = NUM_FORECASTS + 1
FEWEST_RANKS = 50
"""A chi-square test needs about five expected ranks a bin."""

NODES = ("Kalman", "FiniteState", "Guided", "LinearPredictor", "AssumedDensity", "Particles")
RAISED_BY = {codes.IMPROPER: ("Grid", "Taylor"), codes.FEW_NODES: NODES}
"""Beliefs that raise the flags of a code; no other belief looks for what it reports."""

NOT_OF_NODES = (codes.ROLLED_BACK, codes.NOT_A_NUMBER, codes.OVERFLOW)
"""Flags of particles that a node filter never raises: a node that the model gives no number for loses its weight."""

WIDTH, INDENT = 100, "      "


@dataclass(frozen=True)
class Finding:
    """One warning, with the figures that led to it."""

    code: Code
    figures: str

    def __str__(self) -> str:
        paragraphs = (f"{self.code.title}: {self.figures}", self.code.meaning, f"Try: {' '.join(self.code.fixes)}")
        indented = [textwrap.fill(text, WIDTH, initial_indent=INDENT, subsequent_indent=INDENT) for text in paragraphs]
        return "\n".join([f"  {self.code.code} {indented[0].lstrip()}", *indented[1:]])


@dataclass(frozen=True)
class NotJudged:
    """A check that had nothing to judge, and why."""

    code: Code
    reason: str


@dataclass(frozen=True)
class Diagnosis:
    """What a run looks like; each check stands in exactly one of three lists.

    Attributes:
        heading: How many steps and particles, and how many steps had no observation, if these are many.
        passed: Checks that were made and found nothing.
        findings: What was found.
        not_judged: Checks that could not be made, each with the reason.
    """

    heading: str
    passed: tuple[Code, ...]
    findings: tuple[Finding, ...]
    not_judged: tuple[NotJudged, ...]

    @property
    def is_well(self) -> bool:
        """Whether nothing was found, among what could be judged."""
        return not self.findings

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        counts = f"{len(self.passed)} checks passed, {len(self.findings)} did not:"
        if self.is_well:
            unknown = codes.UNSURE in [one.code for one in self.not_judged]
            but = ", but the error of the posterior mean was not measured" if unknown else ""
            counts = f"{len(self.passed)} checks passed; no problem was found{but}."
        lines = [self.heading, counts, *map(str, self.findings)]
        if self.not_judged:
            by_reason: dict[str, list[str]] = {}
            for one in self.not_judged:
                by_reason.setdefault(one.reason, []).append(one.code.code)
            listed = "; ".join(f"{', '.join(checks)} ({reason})" for reason, checks in by_reason.items())
            lines.append(textwrap.fill(f"Not judged: {listed}.", WIDTH))
        return "\n".join(lines)


@dataclass(frozen=True)
class Record:
    """All that the checks look at.

    Attributes:
        fingerprint: Fingerprint of the filter, as JSON.
        time: How many observations have been taken in.
        unit: What the filter has many of: "nodes" or "particles".
        outcome: All flags raised so far.
        num_values: Distinct values of theta among the particles at the end.
        skips_outliers: Whether the filter has a `OutlierGate`.
        error: Estimated error of the posterior means in posterior sds: the parts that were measured, NaN if none was.
        error_not_measured: Which part was not measured and why; empty if all were.
        info: What happened at each step of the history.
    """

    fingerprint: str
    time: int
    unit: str
    outcome: int
    num_values: int
    skips_outliers: bool
    error: float
    error_not_measured: str
    info: StepInfo


def diagnose(state: Any, history: History) -> Diagnosis:
    """Look at a run and return what was found, as text that can be printed and as lists.

    Args:
        state: The state after the run.
        history: What `run` recorded.
    """
    call = "The call is diagnose(state, history), with both as run returned them."
    require_kind(history, History, "history", call)
    require_kind(state, history.filter.state_kind, "state", call)
    filter, error = history.filter, history.filter.posterior(state).error()
    record = Record(
        fingerprint=state.fingerprint,
        time=int(state.time),
        unit=filter.unit,
        outcome=int(state.outcome),
        num_values=count_distinct(np.asarray(filter.particles(state)[1])),
        skips_outliers=getattr(filter, "outliers", None) is not None,
        error=error.largest,
        error_not_measured=error.not_measured,
        info=history.info,
    )
    return examine(record)


def count_distinct(values: np.ndarray) -> int:
    """Return how many of the rows differ."""
    return len(np.unique(values, axis=0))


def examine(record: Record) -> Diagnosis:
    """Look at a record, of a run or of a saved result."""
    fingerprint = json.loads(record.fingerprint)
    size = f"{fingerprint['particles']} {record.unit}, {fingerprint['belief']}"
    heading = f"{fingerprint['model']}: {len(record.info.ess)} steps, {size}"
    heading += _gaps(record.info)
    judged = {code: _judge(code, record, fingerprint) for code in codes.CODES}
    return Diagnosis(
        heading,
        passed=tuple(code for code, verdict in judged.items() if verdict is None),
        findings=tuple(verdict for verdict in judged.values() if isinstance(verdict, Finding)),
        not_judged=tuple(verdict for verdict in judged.values() if isinstance(verdict, NotJudged)),
    )


def _gaps(info: StepInfo) -> str:
    """Say how many steps had no observation, if they are many: nothing was learned in them."""
    gained, ranks = np.asarray(info.log_evidence_increment), jax.tree.leaves(info.pit)
    is_blank = np.all([np.isnan(np.reshape(rank, (len(gained), -1))).all(axis=1) for rank in ranks], axis=0)
    flags = int(Outcome.OUTLIER_SKIPPED | Outcome.OBSERVATION_NOT_FINITE)
    missing = (gained == 0) & is_blank & ((np.asarray(info.outcome) & flags) == 0)
    if np.sum(missing) < MANY_MISSING * max(len(gained), 1):
        return ""
    return f"\n{np.sum(missing)} of {len(gained)} steps had no observation ({np.mean(missing):.0%})."


def _judge(code: Code, record: Record, fingerprint: dict[str, Any]) -> Finding | NotJudged | None:
    """Return what a check found, why it could not be made, or None if it passed."""
    if (flagged := _flagged(code, record)) is not None:
        return flagged
    if len(record.info.ess) == 0:
        return NotJudged(code, "no steps")
    if code in FIGURES:
        return FIGURES[code](record, fingerprint)
    belief = fingerprint["belief"]
    if record.unit == "nodes" and code in NOT_OF_NODES:
        return NotJudged(code, "not looked for with nodes")
    if code in RAISED_BY and not any(name in belief for name in RAISED_BY[code]):
        return NotJudged(code, f"not looked for with {belief}")
    if code is codes.SKIPPED and not record.skips_outliers:
        return NotJudged(code, "no OutlierGate")
    return None


def _flagged(code: Code, record: Record) -> Finding | None:
    """Return what the flags of a code tell, if it has any and they were raised."""
    flags = int(code.flags)
    outcomes = np.asarray(record.info.outcome)
    times = np.flatnonzero(outcomes & flags)
    if len(times):
        share = f"{len(times)} of {len(outcomes)} steps, first at step {times[0] + 1}, last at {times[-1] + 1}"
        largest = np.max(np.nan_to_num(np.asarray(record.info.approximation_error), nan=np.inf))
        extra = f"; the largest error was {largest:.2g} nats" if code is codes.INACCURATE else ""
        return Finding(code, f"in {share}{extra}.")
    return Finding(code, "before the steps of this history.") if record.outcome & flags else None


def _check_weights(record: Record, fingerprint: dict[str, Any]) -> Finding | None:
    num_particles = fingerprint["particles"]
    share = np.median(np.asarray(record.info.ess)) / num_particles
    if share < LEAST_ESS:
        return Finding(codes.FEW_EFFECTIVE, f"the median effective sample size is {share:.1%} of N.")
    if record.num_values <= max(1, LEAST_ESS * num_particles):
        held = f"{num_particles} particles hold {record.num_values} distinct values of theta."
        return Finding(codes.FEW_EFFECTIVE, held)
    return None


def _check_error(record: Record, fingerprint: dict[str, Any]) -> NotJudged | None:
    """Tell whether an error was measured at all; one that is too large raises a flag."""
    if np.any(np.asarray(record.info.approximation_error)) and record.unit != "nodes":
        return None
    return NotJudged(codes.INACCURATE, f"{fingerprint['belief']} reports no approximation error")


def _check_estimate(record: Record, fingerprint: dict[str, Any]) -> Finding | NotJudged | None:
    if record.error > LARGEST_ERROR:
        return Finding(codes.UNSURE, f"by about {record.error:.2f} posterior sds (limit {LARGEST_ERROR}).")
    return NotJudged(codes.UNSURE, record.error_not_measured) if record.error_not_measured else None


def _check_forecasts(record: Record, fingerprint: dict[str, Any]) -> Finding | NotJudged | None:
    too_few = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(record.info.pit):
        ranks = np.reshape(np.asarray(leaf), (len(leaf), -1))
        for component in range(ranks.shape[1]):
            name = f"y{jax.tree_util.keystr(path)}" + (f"[{component}]" if ranks.shape[1] > 1 else "")
            seen = ranks[:, component][~np.isnan(ranks[:, component])]
            if len(seen) < FEWEST_RANKS:
                too_few.append(f"{len(seen)} of {name}")
            elif (chance := uniformity_p_value(seen, NUM_RANKS, NUM_BINS)) < SURPRISE_LIMIT:
                counts = count_ranks(seen, NUM_RANKS, NUM_BINS)[0]
                return Finding(
                    codes.SURPRISED,
                    f"{name}: tenths of the forecasts hold {counts.tolist()} observations (p = {chance:.0e}).",
                )
    reason = f"it needs {FEWEST_RANKS} observations, there are {', '.join(too_few)}"
    return NotJudged(codes.SURPRISED, reason) if too_few else None


FIGURES: dict[Code, Callable[[Record, dict[str, Any]], Finding | NotJudged | None]] = {
    codes.FEW_EFFECTIVE: _check_weights,
    codes.INACCURATE: _check_error,
    codes.SURPRISED: _check_forecasts,
    codes.UNSURE: _check_estimate,
}
"""Checks of the figures that each step records; all others are flags."""
