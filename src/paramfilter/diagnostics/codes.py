"""The warnings a filter may give: each has a code, what it means and what to try. The docs have a page for each.

>>> print(explain("W03"))
W03 islands disagree about theta
What it means: ...
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import SupportsInt

from paramfilter import outcome
from paramfilter.arguments import kind_of
from paramfilter.errors import ArgumentError
from paramfilter.outcome import Outcome


@dataclass(frozen=True)
class Code:
    """A kind of warning.

    Attributes:
        code: `W` and two digits, for ever.
        title: What happened, in a few words.
        meaning: What it says about the numbers.
        cure: What to try, best first.
    """

    code: str
    title: str
    meaning: str
    cure: str

    def __str__(self) -> str:
        return f"{self.code} {self.title}\nWhat it means: {self.meaning}\nWhat to try: {self.cure}"


FEW_EFFECTIVE = Code(
    "W01",
    "few particles carry the weight",
    "the effective sample size after an observation is a small part of N, or the particles are copies of a few values "
    "of theta. Means and intervals are noisy, and the posterior may be overconfident.",
    "if particles are copies: a filter that moves theta, such as auto_filter(model). Otherwise a proposal that uses "
    "the observation, LookAhead(Guided()); more particles; or a wider observation noise, if the one in the model is "
    "smaller than you believe.",
)
FEW_ANCESTORS = Code(
    "W02",
    "few paths are left behind the beliefs",
    "what was learned some time ago rests on few ancestors. Beliefs follow paths, and each resampling removes paths: "
    "the posterior sd is too small, by about a tenth on an easy model and by more where the data say little about the "
    "state.",
    "num_ancestors=2, if the belief allows it: beliefs given the present state do not depend on paths; more particles "
    "(the loss begins when the number of steps nears N); a proposal that uses the observation; num_islands=4, so that "
    "W03 measures the effect.",
)
DISAGREEMENT = Code(
    "W03",
    "islands disagree about theta",
    "groups of particles that took in the same data have different posteriors, so each of them is overconfident. The "
    "pooled posterior includes the spread between islands, but it rests on no more than their number.",
    "more particles; with sir_filter or liu_west_filter, which collapse on long data, another filter, such as "
    "auto_filter(model); a proposal that uses the observation; or restart from a state saved before the disagreement "
    "began.",
)
INACCURATE = Code(
    "W04",
    "beliefs have strayed from the exact ones",
    outcome.MESSAGES[Outcome.BELIEF_INACCURATE],
    "Chebyshev() for one parameter, CrossInterpolation() for more, with more nodes or pivots; what the model needs is "
    "said by separability.analyse(model). With more than three parameters turn 64-bit floats on.",
)
SURPRISED = Code(
    "W05",
    "forecasts and observations do not match",
    "the ranks of the observations among their forecasts should be uniform, and they are not: the model is "
    "misspecified in a way that matters for the next observation. The posterior is that of a wrong model.",
    "plot a histogram of history.info.pit: a hump means noise that is too wide, a bowl noise that is too narrow, a "
    "slope a bias. Then try heavier tails or another term in the model.",
)
ROLLED_BACK = Code(
    "W06",
    "observations that no particle could explain",
    outcome.MESSAGES[Outcome.ALL_WEIGHTS_ZERO] + " Nothing was learned from it.",
    "a heavier-tailed observation; outliers=SkipOutliers(), which takes them as missing; more particles.",
)
NOT_A_NUMBER = Code(
    "W07",
    "the model returned NaN",
    outcome.MESSAGES[Outcome.MODEL_RETURNED_NAN],
    "a prior whose support excludes the bad values, or a guard inside the model, such as jnp.maximum(variance, 1e-6).",
)
IMPROPER = Code(
    "W08",
    "a belief ran out of its window",
    outcome.MESSAGES[Outcome.BELIEF_IMPROPER] + " Or: " + outcome.MESSAGES[Outcome.BELIEF_AT_WINDOW_EDGE],
    "another belief than a Taylor series; a prior that is wider or better placed.",
)
REFUSED = Code(
    "W09",
    "observations that are infinite were refused",
    outcome.MESSAGES[Outcome.OBSERVATION_NOT_FINITE],
    "NaN for what is missing; a look at where the infinities come from.",
)
OVERFLOW = Code(
    "W10",
    "data too large for a statistic",
    outcome.MESSAGES[Outcome.STATISTIC_OVERFLOW],
    "data in other units; 64-bit floats.",
)
LOST_ISLAND = Code(
    "W11",
    "an island could not explain an observation",
    outcome.MESSAGES[Outcome.ISLAND_WEIGHTS_ZERO],
    "more particles; fewer islands; a proposal that sees the data.",
)

SKIPPED = Code(
    "W12",
    "observations were taken for outliers",
    outcome.MESSAGES[Outcome.OUTLIER_SKIPPED] + " The evidence leaves them out as well.",
    "a look at the observations themselves; a heavier-tailed observation, such as dist.StudentT, in which outliers are "
    "part of the model; SkipOutliers with a larger distance.",
)

FEW_NODES = Code(
    "W13",
    "nodes do not cover the posterior",
    outcome.MESSAGES[Outcome.NODES_TOO_FEW] + " Or: " + outcome.MESSAGES[Outcome.SURFACE_INACCURATE],
    "more nodes, node_filter(model, 4096); more kept observations, num_kept=100_000; a prior that rules out what "
    "you do not believe.",
)

UNSURE = Code(
    "W14",
    "the posterior mean may be off",
    "the filter's own estimate of its error is large: few nodes carry the weight, or a surface in place of the "
    "likelihood misses it. Means and intervals are rough.",
    "more nodes, node_filter(model, 4096); more kept observations, num_kept=100_000.",
)

CODES = (
    FEW_EFFECTIVE,
    FEW_ANCESTORS,
    DISAGREEMENT,
    INACCURATE,
    SURPRISED,
    ROLLED_BACK,
    NOT_A_NUMBER,
    IMPROPER,
    REFUSED,
    OVERFLOW,
    LOST_ISLAND,
    SKIPPED,
    FEW_NODES,
    UNSURE,
)

OF_FLAG = {
    Outcome.OBSERVATION_NOT_FINITE: REFUSED,
    Outcome.ALL_WEIGHTS_ZERO: ROLLED_BACK,
    Outcome.MODEL_RETURNED_NAN: NOT_A_NUMBER,
    Outcome.BELIEF_IMPROPER: IMPROPER,
    Outcome.BELIEF_INACCURATE: INACCURATE,
    Outcome.BELIEF_AT_WINDOW_EDGE: IMPROPER,
    Outcome.STATISTIC_OVERFLOW: OVERFLOW,
    Outcome.ISLAND_WEIGHTS_ZERO: LOST_ISLAND,
    Outcome.OUTLIER_SKIPPED: SKIPPED,
    Outcome.NODES_TOO_FEW: FEW_NODES,
    Outcome.SURFACE_INACCURATE: FEW_NODES,
}


def explain(what: str | SupportsInt) -> str:
    """Put a code such as "W03", or the number of an `info.outcome` or `state.outcome`, in words."""
    if not isinstance(what, str):
        try:
            return outcome.explain(what)
        except TypeError as error:
            raise ArgumentError(
                f"explain needs one code or number, got {kind_of(what)}. Write explain(state.outcome), or "
                'explain("W03").'
            ) from error
    for code in CODES:
        if code.code == what.upper():
            return str(code)
    raise ArgumentError(
        f"there is no warning {what!r}; the codes are {CODES[0].code} to {CODES[-1].code}. For what happened "
        "in a step, write explain(info.outcome)."
    )
