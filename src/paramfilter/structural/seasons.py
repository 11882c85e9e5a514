"""Seasons of a known period, and cycles whose period may be unknown.

A dummy season has one effect for each step of the period. The effects sum to noise:

    s_t = -(s_{t-1} + ... + s_{t-period+1}) + N(0, sd^2)

A harmonic turns a pair of numbers by the angle 2 pi j / period at each step. A cycle is one harmonic that is damped:

    (c, c*)' = damping [[cos, sin], [-sin, cos]] (c, c*) + N(0, sd^2 I)

As in statsmodels, a season changes over time by default, and one standard deviation says by how much. `sd=0.0` makes it
the same in all periods.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpyro.distributions as dist

from paramfilter.arguments import kind_of, whole_number
from paramfilter.errors import ModelError
from paramfilter.structural.component import Component, Given, Initial, Parameter, half_normal

USUAL_SEASON, USUAL_CYCLE = half_normal(0.1), half_normal(0.5)
"""Of the steps of a season, which changes slowly, and of a cycle."""
USUAL_PERIOD, USUAL_DAMPING = dist.Uniform(6.0, 40.0), dist.Beta(9.0, 1.0)
WIDE = 2.0


def seasonal(period: int, sd: Given = None, *, name: str = "seasonal", initial: Initial = None) -> Component:
    """Make a season with one effect for each step of the period. It adds period - 1 numbers to the state.

    Args:
        period: Steps in a period, such as 12 for months of a year.
        sd: Standard deviation of the changes, "seasonal_sd": a prior or a number; None selects `HalfNormal(0.1 scale)`,
            and 0.0 makes the season constant.
        name: Name of the component. The names of its parameters begin with it.
        initial: Distribution of each effect at t = 0; None selects `Normal(0, 2 scale)`.

    Example:
        >>> import paramfilter as pf
        >>> st = pf.structural
        >>> st.model(st.local_level() + st.seasonal(4, name="quarter")).states
        ('level', 'quarter', 'quarter, 1 ago', 'quarter, 2 ago')
    """
    period = whole_number(period, "period", 2, "It is the number of steps after which the season repeats.", ModelError)
    return Component(
        name=name,
        states=(name, *(f"{name}, {ago} ago" for ago in range(1, period - 1))),
        parameters={f"{name}_sd": Parameter(sd, USUAL_SEASON)},
        move=lambda values, x: jnp.concatenate([-jnp.sum(x, keepdims=True), x[:-1]]),
        noise=lambda values: [values[f"{name}_sd"], *[0.0] * (period - 2)],
        wide=(WIDE,) * (period - 1),
        initial=initial,
    )


def freq_seasonal(
    period: int | float,
    harmonics: int | None = None,
    sd: Given = None,
    *,
    name: str = "seasonal",
    initial: Initial = None,
) -> Component:
    """Make a season as a sum of harmonics. It adds two numbers to the state for each harmonic.

    Args:
        period: Steps in a period. It need not be a whole number, such as 365.25 days.
        harmonics: Number of harmonics, at most half the period; a few make a smooth season. None selects the most.
        sd: Standard deviation of the changes, the same for all harmonics; see `seasonal`.
        name: Name of the component. The names of its parameters begin with it.
        initial: Distribution of each number at t = 0; None selects `Normal(0, 2 scale)`.

    Example:
        >>> import paramfilter as pf
        >>> st = pf.structural
        >>> len(st.model(st.local_level() + st.freq_seasonal(52, harmonics=2)).states)
        5
    """
    if not isinstance(period, int | float) or not 2 <= period < math.inf:
        raise ModelError(f"period must be a number of at least 2, got {kind_of(period)}. Pass 52 or 365.25, say.")
    most = int(period // 2)
    number = most if harmonics is None else whole_number(harmonics, "harmonics", 1, "Two are smooth.", ModelError)
    if number > most:
        raise ModelError(
            f"a period of {period:g} has at most {most} harmonics, got harmonics={number}. Leave it out for all."
        )
    labels = [f"{name}, {part} {j}" for j in range(1, number + 1) for part in ("cos", "sin")]
    # At half the period of an even season the sine is zero at every step.
    size = 2 * number - 1 if 2 * number == period else 2 * number

    def move(values, x):
        pairs = [x[start : start + 2] for start in range(0, size, 2)]
        angles = [2 * math.pi * j / period for j in range(1, number + 1)]
        turned = (_turned(angle, pair) if len(pair) == 2 else -pair for angle, pair in zip(angles, pairs, strict=True))
        return jnp.concatenate(list(turned))

    return Component(
        name=name,
        states=tuple(labels[:size]),
        parameters={f"{name}_sd": Parameter(sd, USUAL_SEASON)},
        move=move,
        noise=lambda values: [values[f"{name}_sd"]] * size,
        wide=(WIDE,) * size,
        weights=lambda inputs: 1.0 - jnp.arange(size) % 2,
        initial=initial,
    )


def cycle(
    period: Given, damping: Given = None, sd: Given = None, *, name: str = "cycle", initial: Initial = None
) -> Component:
    """Make a cycle, such as that of an economy, whose period, damping and noise may be unknown.

    Args:
        period: Steps in a period, "cycle_period": a prior, such as `dist.Uniform(6.0, 40.0)`, or a number. Its bounds
            distinguish the cycle from trend and season.
        damping: Share of the cycle that stays at each step, "cycle_damping": a prior or a number up to 1; None selects
            `Beta(9, 1)`.
        sd: Standard deviation of the noise, "cycle_sd": a prior or a number; None selects `HalfNormal(0.5 scale)`.
        name: Name of the component. The names of its parameters begin with it.
        initial: Distribution of both numbers at t = 0; None selects `Normal(0, 2 scale)`.
    """

    def move(values, x):
        return values[f"{name}_damping"] * _turned(2 * math.pi / values[f"{name}_period"], x)

    return Component(
        name=name,
        states=(name, f"{name}, sin"),
        parameters={
            f"{name}_period": Parameter(_required(period), lambda scale: USUAL_PERIOD, least=2.0),
            f"{name}_damping": Parameter(damping, lambda scale: USUAL_DAMPING, most=1.0),
            f"{name}_sd": Parameter(sd, USUAL_CYCLE),
        },
        move=move,
        noise=lambda values: [values[f"{name}_sd"]] * 2,
        wide=(WIDE, WIDE),
        initial=initial,
    )


def _required(period: Given) -> Given:
    if period is None:
        raise ModelError("period of a cycle must be a prior, such as dist.Uniform(6.0, 40.0), or a number; got None.")
    return period


def _turned(angle: Any, pair: Any) -> Any:
    cosine, sine = jnp.cos(angle), jnp.sin(angle)
    return jnp.stack([cosine * pair[0] + sine * pair[1], cosine * pair[1] - sine * pair[0]])
