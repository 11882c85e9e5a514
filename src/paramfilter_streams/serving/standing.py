"""How a series stands: what the library's diagnostics find in its last steps, and whether its ESS is low now.

`paramfilter.diagnose` looks at a state and its history; here the history is what the store keeps of the last steps.
Two things are not stored, so they are not judged: how many distinct values theta has, and the error that a node filter
estimates of its mean.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from paramfilter.diagnostics.diagnosis import LARGEST_ERROR, LEAST_ESS, Finding, Record, examine
from paramfilter.filters import StepInfo
from paramfilter_streams import Posterior
from paramfilter_streams.figures import OF_STEP
from paramfilter_streams.serving.about import About

FEWEST_EFFECTIVE = 1 / LARGEST_ERROR**2
"""With fewer effective particles the Monte Carlo error of a mean, about sd / sqrt(ESS), may exceed `LARGEST_ERROR`."""


class Standing(NamedTuple):
    """How a series stands.

    Attributes:
        kind: The color: "good", "watch" or "bad".
        words: A few words for a table.
        findings: The warnings of the library's diagnostics.
        num_checks: How many checks were made.
    """

    kind: str
    words: str
    findings: tuple[Finding, ...] = ()
    num_checks: int = 0


def low_ess_below(about: About) -> float:
    """Return the ESS below which a step is called low."""
    # Nodes are placed, not drawn: their error does not go as 1 / ESS.
    return LEAST_ESS * about.size if about.unit == "nodes" else max(LEAST_ESS * about.size, FEWEST_EFFECTIVE)


def standing_of(posteriors: Sequence[Posterior], about: About | None) -> Standing:
    """Judge a series by its last posteriors; there must be one."""
    if about is None or not set(OF_STEP) <= posteriors[-1].figures.keys():
        return Standing("watch", "not judged")
    diagnosis = examine(_record(posteriors, about))
    num_checks = len(diagnosis.passed) + len(diagnosis.findings)
    is_low = posteriors[-1].figures["ess"] < low_ess_below(about)
    codes = [one.code.code for one in diagnosis.findings]
    words = ", ".join([*codes, *(["low ESS"] if is_low else [])])
    kind = "bad" if codes else "watch" if is_low else "good"
    return Standing(kind, words or "no warning", diagnosis.findings, num_checks)


def _record(posteriors: Sequence[Posterior], about: About) -> Record:
    rows = [one.figures for one in posteriors]
    named = lambda part: [name for name in rows[0] if name.startswith(f"{part}:")]
    table = lambda names: np.array([[row[name] for name in names] for row in rows], float)
    outcomes = table(["outcome"])[:, 0].astype(int)
    fields: dict[str, Any] = {name: table([name])[:, 0] for name in OF_STEP}
    fields |= {"outcome": outcomes, "pit": table(named("pit"))}
    fields |= dict.fromkeys(("resampled", "num_nan", "forecast"), np.zeros(len(rows), int))  # no check looks at them
    return Record(
        fingerprint=about.fingerprint,
        time=posteriors[-1].sequence,
        unit=about.unit,
        outcome=functools.reduce(operator.or_, outcomes.tolist(), 0),
        num_values=about.size,
        skips_outliers=about.skips_outliers,
        error=math.nan,
        error_not_measured="the service does not estimate it",
        info=StepInfo(**fields),
    )


def ess_words(posterior: Posterior, about: About | None) -> str:
    """Return the ESS with its N, such as "3 of 32"."""
    ess = posterior.figures.get("ess", math.nan)
    if not math.isfinite(ess):
        return "–"
    return f"{ess:.0f}" if about is None else f"{ess:.0f} of {about.size:,}"
