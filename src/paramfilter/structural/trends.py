"""Trends: a level, and a slope that is added to it at each step.

    level' = level + slope + N(0, level_sd^2),    slope' = damping slope + N(0, trend_sd^2)

The names follow `UnobservedComponents` of statsmodels, in which "trend" is the slope. A standard deviation of 0 makes
a part deterministic.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpyro.distributions as dist

from paramfilter.structural.component import Component, Given, Initial, Parameter, half_normal

USUAL_LEVEL, USUAL_TREND = half_normal(0.5), half_normal(0.1)
"""Of the steps of a level and of a slope."""
USUAL_DAMPING = dist.Uniform(0.8, 0.98)
"""Below it a slope is gone within a few steps, above it the data cannot tell it from 1 (R. Hyndman and G.
Athanasopoulos, Forecasting: Principles and Practice, section 8.2)."""
WIDE_LEVEL, WIDE_TREND = 5.0, 1.0


def local_level(sd: Given = None, *, name: str = "level", initial: Initial = None) -> Component:
    """Make a level that moves as a random walk.

    Args:
        sd: Standard deviation of a step, "level_sd": a prior or a number; None selects `HalfNormal(0.5 scale)`.
        name: Name of the component. The names of its parameters begin with it.
        initial: Distribution of the level at t = 0; None selects `Normal(center, 5 scale)`.

    Example:
        >>> import paramfilter as pf
        >>> pf.structural.model(pf.structural.local_level())
        StructuralModel(level: parameters level_sd, observation_sd)
    """
    return Component(
        name=name,
        states=(name,),
        parameters={f"{name}_sd": Parameter(sd, USUAL_LEVEL)},
        move=lambda values, x: x,
        noise=lambda values: [values[f"{name}_sd"]],
        wide=(WIDE_LEVEL,),
        has_level=True,
        initial=initial,
    )


def fixed_intercept(*, name: str = "level", initial: Initial = None) -> Component:
    """Make a level that is constant but unknown: `local_level` with the standard deviation 0."""
    return local_level(0.0, name=name, initial=initial)


def damped_trend(
    level_sd: Given = None,
    trend_sd: Given = None,
    damping: Given = None,
    *,
    name: str = "level",
    trend_name: str = "trend",
    initial: Initial = None,
) -> Component:
    """Make a level whose slope returns to zero, so that forecasts level off.

    Args:
        level_sd: Standard deviation of the level's steps: a prior or a number; None selects `HalfNormal(0.5 scale)`.
        trend_sd: The same of the slope; None selects `HalfNormal(0.1 scale)`.
        damping: Share of the slope that stays at each step, "trend_damping": a prior or a number up to 1; None selects
            `Uniform(0.8, 0.98)`.
        name: Name of the level and of the component.
        trend_name: Name of the slope.
        initial: Distribution of level and slope at t = 0, such as `dist.Normal(jnp.array([100.0, 0.0]), 10.0)`; None
            selects `Normal(center, 5 scale)` and `Normal(0, scale)`.
    """

    def move(values, x):
        return jnp.stack([x[0] + x[1], values[f"{trend_name}_damping"] * x[1]])

    return Component(
        name=name,
        states=(name, trend_name),
        parameters={
            f"{name}_sd": Parameter(level_sd, USUAL_LEVEL),
            f"{trend_name}_sd": Parameter(trend_sd, USUAL_TREND),
            f"{trend_name}_damping": Parameter(damping, lambda scale: USUAL_DAMPING, most=1.0),
        },
        move=move,
        noise=lambda values: [values[f"{name}_sd"], values[f"{trend_name}_sd"]],
        wide=(WIDE_LEVEL, WIDE_TREND),
        reports=(trend_name,),
        has_level=True,
        initial=initial,
    )


def local_linear_trend(
    level_sd: Given = None,
    trend_sd: Given = None,
    *,
    name: str = "level",
    trend_name: str = "trend",
    initial: Initial = None,
) -> Component:
    """Make a level with a slope, both of which move as random walks. For the arguments see `damped_trend`.

    Example:
        >>> import paramfilter as pf
        >>> list(pf.structural.model(pf.structural.local_linear_trend()).prior)
        ['level_sd', 'trend_sd', 'observation_sd']
    """
    return damped_trend(level_sd, trend_sd, 1.0, name=name, trend_name=trend_name, initial=initial)


def smooth_trend(
    trend_sd: Given = None, *, name: str = "level", trend_name: str = "trend", initial: Initial = None
) -> Component:
    """Make a level without noise whose slope moves as a random walk. For the arguments see `damped_trend`."""
    return local_linear_trend(0.0, trend_sd, name=name, trend_name=trend_name, initial=initial)


def random_walk_with_drift(
    level_sd: Given = None, *, name: str = "level", trend_name: str = "trend", initial: Initial = None
) -> Component:
    """Make a random walk with a constant unknown slope. For the arguments see `damped_trend`."""
    return local_linear_trend(level_sd, 0.0, name=name, trend_name=trend_name, initial=initial)
