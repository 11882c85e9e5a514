"""One look at a run: which checks passed, what was found, what it means and what to try, and what was not judged.

A check passes only if it had something to judge: particles give no estimate of their error (W14), and most
beliefs never raise some of the flags.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from paramfilter.arguments import require_kind
from paramfilter.diagnostics import codes
from paramfilter.diagnostics.codes import Code
from paramfilter.filters import History, StepInfo, figures_of
from paramfilter.filters.step_info import NUM_FORECASTS
from paramfilter.labels import PIT
from paramfilter.nodes import NodeInfo
from paramfilter.numerics.ranks import count_ranks, uniformity_p_value
from paramfilter.particles import ParticleInfo

LEAST_ESS = 0.05
"""Median effective sample size, or number of distinct values of theta, as a share of N, below which W01 is given."""

LARGEST_ERROR = 0.25
"""Estimated error of a posterior mean, in posterior sds, above which W14 is given."""

SURPRISE_LIMIT = 1e-6
"""Probability of ranks as uneven as these, if the model were right, below which there is a warning."""

NUM_BINS = 10
NUM_RANKS = NUM_FORECASTS + 1
FEWEST_RANKS = 50
"""A chi-square test needs about five expected ranks a bin."""

RAISED_BY = {codes.IMPROPER: ("Grid", "Taylor")}
"""Beliefs that raise the flags of a code; no other belief looks for what it reports."""

NOT_OF_NODES = (codes.ROLLED_BACK, codes.NOT_A_NUMBER, codes.IMPROPER, codes.OVERFLOW)
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
        heading: The model, and how many steps and particles.
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
        run: Figures of the whole run by name, as `figures_of` returns them.
        info: What happened at each step of the history.
    """

    run: Mapping[str, Any]
    info: StepInfo


def diagnose(state: Any, history: History) -> Diagnosis:
    """Look at a run and return what was found, as text that can be printed and as lists.

    Args:
        state: The state after the run.
        history: What `run` recorded.
    """
    call = "The call is diagnose(state, history), with both as run returned them."
    require_kind(history, History, "history", call)
    require_kind(state, history.filter.engine.state_kind, "state", call)
    filter = history.filter
    return examine(Record(figures_of(filter, state, filter.posterior(state).error()), history.info))


def record_of(tree: Any) -> Record:
    """Return what `examine` looks at, from a `DataTree` made by `to_datatree`."""
    figures = {str(name): jnp.asarray(values) for name, values in tree["filter_stats"].data_vars.items()}
    ranks = {name.removeprefix(PIT): figures.pop(name) for name in tuple(figures) if name.startswith(PIT)}
    pit = ranks["y"] if list(ranks) == ["y"] else ranks  # an array alone has no name, as the model observes it
    kind = NodeInfo if tree.attrs["unit"] == "nodes" else ParticleInfo
    return Record(tree.attrs, kind(pit=pit, forecast=None, **figures))


def examine(record: Record) -> Diagnosis:
    """Look at a record, of a run or of a saved result."""
    run = record.run
    judged = {code: _judge(code, record) for code in codes.CODES}
    return Diagnosis(
        f"{run['model']}: {len(record.info.ess)} steps, {run['num_particles']} {run['unit']}, {run['belief']}",
        passed=tuple(code for code, verdict in judged.items() if verdict is None),
        findings=tuple(verdict for verdict in judged.values() if isinstance(verdict, Finding)),
        not_judged=tuple(verdict for verdict in judged.values() if isinstance(verdict, NotJudged)),
    )


def _judge(code: Code, record: Record) -> Finding | NotJudged | None:
    """Return what a check found, why it could not be made, or None if it passed."""
    if (flagged := _flagged(code, record)) is not None:
        return flagged
    if len(record.info.ess) == 0:
        return NotJudged(code, "no steps")
    if code in FIGURES:
        return FIGURES[code](record)
    belief, has_nodes = record.run["belief"], record.run["unit"] == "nodes"
    if has_nodes and code in NOT_OF_NODES:
        return NotJudged(code, "not looked for with nodes")
    is_of_others = code in RAISED_BY and not any(name in belief for name in RAISED_BY[code])
    if is_of_others or (code is codes.FEW_NODES and not has_nodes):
        return NotJudged(code, f"not looked for with {belief}")
    if code is codes.SKIPPED and not record.run["skips_outliers"]:
        return NotJudged(code, "no OutlierGate")
    return None


def _flagged(code: Code, record: Record) -> Finding | None:
    """Return what the flags of a code tell, if it has any and they were raised."""
    flags = int(code.flags)
    outcomes = np.asarray(record.info.outcome)
    times = np.flatnonzero(outcomes & flags)
    if len(times):
        share = f"{len(times)} of {len(outcomes)} steps, first at step {times[0] + 1}, last at {times[-1] + 1}"
        extra = ""
        if isinstance(record.info, ParticleInfo) and code is codes.INACCURATE:
            largest = np.max(np.nan_to_num(np.asarray(record.info.approximation_error), nan=np.inf))
            extra = f"; the largest error was {largest:.2g} nats"
        return Finding(code, f"in {share}{extra}.")
    return Finding(code, "before the steps of this history.") if int(record.run["outcome"]) & flags else None


def _check_weights(record: Record) -> Finding | None:
    num_particles, num_distinct = record.run["num_particles"], record.run["num_distinct"]
    share = np.median(np.asarray(record.info.ess)) / num_particles
    if share < LEAST_ESS:
        return Finding(codes.FEW_EFFECTIVE, f"the median effective sample size is {share:.1%} of N.")
    if num_distinct <= max(1, LEAST_ESS * num_particles):
        return Finding(codes.FEW_EFFECTIVE, f"{num_particles} particles hold {num_distinct} distinct values of theta.")
    return None


def _check_error(record: Record) -> NotJudged | None:
    """Tell whether an error was measured at all; one that is too large raises a flag."""
    if isinstance(record.info, ParticleInfo) and np.any(np.asarray(record.info.approximation_error)):
        return None
    return NotJudged(codes.INACCURATE, f"{record.run['belief']} reports no approximation error")


def _check_estimate(record: Record) -> Finding | NotJudged | None:
    error, not_measured = record.run["error"], record.run["error_not_measured"]
    if error > LARGEST_ERROR:
        return Finding(codes.UNSURE, f"by about {error:.2f} posterior sds (limit {LARGEST_ERROR}).")
    return NotJudged(codes.UNSURE, not_measured) if not_measured else None


def _check_forecasts(record: Record) -> Finding | NotJudged | None:
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


FIGURES: dict[Code, Callable[[Record], Finding | NotJudged | None]] = {
    codes.FEW_EFFECTIVE: _check_weights,
    codes.INACCURATE: _check_error,
    codes.SURPRISED: _check_forecasts,
    codes.UNSURE: _check_estimate,
}
"""Checks of the figures that each step records; all others are flags."""
