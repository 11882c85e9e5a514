"""The warnings a filter may give, one list: each has a code, what it means, what to try, and the flags that raise it.

>>> print(explain("W05"))
W05 forecasts and observations do not match
What it means: ...
>>> explain(0)
'all is well'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import SupportsInt

from paramfilter.arguments import kind_of
from paramfilter.errors import ArgumentError
from paramfilter.outcome import Outcome


@dataclass(frozen=True)
class Code:
    """A kind of warning.

    Attributes:
        code: `W` and two digits.
        title: What happened, in a few words.
        meaning: What it says about the numbers.
        fixes: What to try, best first.
        flags: Flags of `info.outcome` that raise it; none if it comes from figures of the whole run.
    """

    code: str
    title: str
    meaning: str
    fixes: tuple[str, ...]
    flags: Outcome = Outcome.OK

    def __str__(self) -> str:
        return f"{self.code} {self.title}\nWhat it means: {self.meaning}\nWhat to try: {' '.join(self.fixes)}"


FEW_EFFECTIVE = Code(
    "W01",
    "few particles carry the weight",
    "The effective sample size is a small part of N, or the particles are copies of a few values of theta. Means and "
    "intervals are noisy, and the posterior may be overconfident.",
    (
        "If particles are copies, use a filter that moves theta, such as auto_filter(model).",
        "Use a proposal that sees the observation: LookAhead(Guided()).",
        "Use more particles.",
        "Check whether the observation noise of the model is too small.",
    ),
)
INACCURATE = Code(
    "W04",
    "beliefs are inaccurate",
    "The beliefs about theta miss the exact ones by more than half a nat: a Taylor series outside its radius of "
    "convergence, or too few values. Do not use the posterior.",
    ("Use auto_filter(model), or particles.Grid() for one or two parameters.",),
    Outcome.BELIEF_INACCURATE,
)
SURPRISED = Code(
    "W05",
    "forecasts and observations do not match",
    "The ranks of the observations among their forecasts should be uniform, and they are not. The model is "
    "misspecified in a way that matters for the next observation; the posterior is that of a wrong model.",
    (
        "Plot history.info.pit: a hump means that the noise is too wide, a bowl that it is too narrow, a slope a bias.",
        "Try heavier tails, or another term in the model.",
    ),
)
ROLLED_BACK = Code(
    "W06",
    "no particle could explain an observation",
    "All weights were zero. The step was rolled back, and nothing was learned from the observation.",
    (
        "Use a heavier-tailed observation, such as dist.StudentT.",
        "Pass outliers=OutlierGate(), which treats such observations as missing.",
        "Use more particles, or a wider prior.",
    ),
    Outcome.ALL_WEIGHTS_ZERO,
)
NOT_A_NUMBER = Code(
    "W07",
    "the model returned NaN",
    "Some particles got weight zero because the model returned NaN for them; info.num_nan counts them. (Inside your "
    "own jit also: an observation that can only be missing as a whole was missing in part.)",
    (
        "Choose a prior whose support excludes the bad values.",
        "Guard the expression inside the model: jnp.maximum(variance, 1e-6).",
    ),
    Outcome.MODEL_RETURNED_NAN,
)
IMPROPER = Code(
    "W08",
    "a belief left its window",
    "A belief pushes against the edge of the window in which theta is drawn (the data contradict the prior), or the "
    "polynomial of a Taylor belief grows without bound. Draws are truncated; do not use the posterior.",
    (
        "Widen the prior, or move it nearer to the truth.",
        "Replace a Taylor belief: use TaylorOfMean, another order, or Grid().",
    ),
    Outcome.BELIEF_IMPROPER | Outcome.BELIEF_AT_WINDOW_EDGE,
)
REFUSED = Code(
    "W09",
    "infinite observations were refused",
    "An observation was +inf or -inf. It was refused, and the state is as before.",
    ("Use NaN for missing values.", "Find out where the infinities come from."),
    Outcome.OBSERVATION_NOT_FINITE,
)
OVERFLOW = Code(
    "W10",
    "data too large for a statistic",
    "An observation overflowed the statistic of some particles, and was left out of their beliefs.",
    (
        "Rescale the data.",
        "Enable 64-bit floats: jax.config.update('jax_enable_x64', True).",
        "Lower the order of a Taylor belief.",
    ),
    Outcome.STATISTIC_OVERFLOW,
)
SKIPPED = Code(
    "W12",
    "outliers were skipped",
    "Observations far outside all forecasts were treated as missing, because outliers=OutlierGate() asks for it. A few "
    "are normal; many mean that the model is wrong. The evidence leaves them out as well.",
    (
        "Look at the skipped observations.",
        "Use a heavier-tailed observation, such as dist.StudentT, which makes outliers part of the model.",
        "Raise the limit of OutlierGate.",
    ),
    Outcome.OUTLIER_SKIPPED,
)
FEW_NODES = Code(
    "W13",
    "nodes do not cover the posterior",
    "Too few nodes of theta lie where the posterior is, after many attempts to place them; or nodes were renewed after "
    "the kept observations had ended, by a surface that misses the log likelihood. The posterior may be off.",
    (
        "Use more nodes: node_filter(model, 4096).",
        "Keep more observations: num_kept=100_000.",
        "If it stays, some parameters can hardly be told apart: fix one of them, or narrow its prior.",
    ),
    Outcome.NODES_TOO_FEW | Outcome.SURFACE_INACCURATE,
)
UNSURE = Code(
    "W14",
    "the posterior mean may be off",
    "The filter's estimate of its own error is large: few nodes carry the weight, a surface in place of the likelihood "
    "misses it, or the inner filter is an approximation that does not suit the model. Means and intervals are rough.",
    (
        "If the inner filter is AssumedDensity or LinearPredictor, compare with pf.references.pmmh(key, model, ys).",
        "Use more nodes: node_filter(model, 4096).",
        "Keep more observations: num_kept=100_000.",
    ),
)

CODES = tuple(one for one in vars().values() if isinstance(one, Code))
"""All of them, in the order of their numbers."""


def explain(what: str | SupportsInt) -> str:
    """Put a code such as "W05", or the number of an `info.outcome` or `state.outcome`, in words.

    Args:
        what: A code, or flags; several flags give several paragraphs.
    """
    if not isinstance(what, str):
        try:
            flags = Outcome(int(what))
        except TypeError as error:
            raise ArgumentError(
                f"explain needs one code or number, got {kind_of(what)}. Write explain(state.outcome), or "
                'explain("W05").'
            ) from error
        raised = [str(code) for code in CODES if code.flags & flags]
        return "\n\n".join(raised) if raised else "all is well"
    for code in CODES:
        if code.code == what.upper():
            return str(code)
    raise ArgumentError(
        f"there is no warning {what!r}; the codes are {CODES[0].code} to {CODES[-1].code}. For what happened "
        "in a step, write explain(info.outcome)."
    )
