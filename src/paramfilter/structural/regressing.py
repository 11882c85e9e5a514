"""Regression on inputs, whose coefficients are states, and autoregression, which is stationary.

A coefficient that does not change is a state without noise. The inner filter learns it together with the other states,
so it costs no parameter.

An autoregression of order p is written in partial autocorrelations r_1..r_p between -1 and 1: whatever these are, it is
stationary. With order 1 there is one, the coefficient. The recursion of Levinson and Durbin turns them into
coefficients and autocorrelations.

J. Monahan, A note on enforcing stationarity in autoregressive-moving average models, Biometrika 71 (1984).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array, Float

from paramfilter.arguments import kind_of, whole_number
from paramfilter.errors import ArgumentError, ModelError
from paramfilter.structural.component import Component, Given, Initial, Parameter, half_normal

USUAL_COEFFICIENT, USUAL_AUTOREGRESSION = half_normal(0.1), half_normal(0.5)
"""Of the steps of a coefficient, and of the noise of an autoregression."""
WIDE = 2.0


def regression(
    covariates: int | Sequence[str], sd: Given = 0.0, *, name: str = "regression", initial: Initial = None
) -> Component:
    """Make a regression on inputs. Its coefficients are states, so they add no parameter.

    Args:
        covariates: Names of the covariates, which `inputs` holds in a dict; or their number, if `inputs` is an array
            with a row for each step. If the model reads other inputs as well, the array is `inputs["regression"]`.
        sd: Standard deviation of a step of each coefficient, "regression_sd". The default 0.0 keeps coefficients
            constant. A prior lets them move as random walks; None selects `HalfNormal(0.1 scale)`.
        name: Name of the component.
        initial: Distribution of the coefficients at t = 0; None selects `Normal(0, 2 scale)`, which is wide for
            covariates of order 1.

    Example:
        >>> import paramfilter as pf
        >>> st = pf.structural
        >>> st.model(st.local_level() + st.regression(["rain", "price"])).example_inputs
        {'price': 1.0, 'rain': 1.0}
    """
    if isinstance(covariates, Sequence):
        names = tuple(covariates)
        if isinstance(covariates, str) or not names or not all(isinstance(one, str) for one in names):
            raise ArgumentError(
                f'covariates must be a list of names, such as ["rain"], or a number; got {kind_of(covariates)}.'
            )
        shapes: dict[str, tuple[int, ...]] = {one: () for one in names}
        row = lambda inputs: jnp.stack([jnp.asarray(inputs[one], float) for one in names])
    else:
        number = whole_number(covariates, "covariates", 1, 'Or give their names, such as ["rain", "price"].')
        names = tuple(map(str, range(number)))
        shapes = {name: (number,)}
        row = lambda inputs: inputs[name]
    if len(set(names)) < len(names):
        raise ModelError(f"covariates must have different names, got {list(names)}. Leave out the one that repeats.")
    states = tuple(f"{name}[{one}]" for one in names)
    return Component(
        name=name,
        states=states,
        parameters={f"{name}_sd": Parameter(sd, USUAL_COEFFICIENT)},
        move=lambda values, x: x,
        noise=lambda values: [values[f"{name}_sd"]] * len(states),
        wide=(WIDE,) * len(states),
        weights=row,
        inputs=shapes,
        reports=states,
        initial=initial,
    )


def autoregressive(order: int = 1, coefficient: Given = None, sd: Given = None, *, name: str = "ar") -> Component:
    """Make a stationary autoregression, which starts in its stationary distribution.

    Args:
        order: Number of lags p.
        coefficient: With order 1, "ar_coefficient": a prior on (-1, 1), or a number; None selects `Uniform(-1, 1)`.
            With a higher order, "ar_partial_autocorrelations": the same for each of p partial autocorrelations.
        sd: Standard deviation of the noise, "ar_sd": a prior or a number; None selects `HalfNormal(0.5 scale)`.
        name: Name of the component. The names of its parameters begin with it.

    Example:
        >>> import paramfilter as pf
        >>> pf.structural.model(pf.structural.autoregressive(2))
        StructuralModel(ar: parameters ar_partial_autocorrelations[2], ar_sd, observation_sd)
    """
    order = whole_number(order, "order", 1, "It is the number of lags.", ModelError)
    partial_name = f"{name}_coefficient" if order == 1 else f"{name}_partial_autocorrelations"
    shape = () if order == 1 else (order,)
    usual = lambda scale: dist.Uniform(-1.0, 1.0).expand(shape).to_event(len(shape))
    partials = lambda values: jnp.broadcast_to(jnp.asarray(values[partial_name], float), (order,))

    def move(values, x):
        coefficients, _, _ = levinson_durbin(partials(values))
        return jnp.concatenate([(coefficients @ x)[None], x[:-1]])

    def stationary(values):
        _, correlations, share = levinson_durbin(partials(values))
        sd = values[f"{name}_sd"] / jnp.sqrt(share)
        if order == 1:
            return sd[None]
        apart = jnp.abs(jnp.arange(order)[:, None] - jnp.arange(order))
        return sd * jnp.linalg.cholesky(correlations[apart])

    return Component(
        name=name,
        states=(name, *(f"{name}, {ago} ago" for ago in range(1, order))),
        parameters={
            partial_name: Parameter(coefficient, usual, least=-1.0, most=1.0),
            f"{name}_sd": Parameter(sd, USUAL_AUTOREGRESSION),
        },
        move=move,
        noise=lambda values: [values[f"{name}_sd"], *[0.0] * (order - 1)],
        wide=stationary,
    )


def levinson_durbin(
    partials: Float[Array, " lag"],
) -> tuple[Float[Array, " lag"], Float[Array, " lag"], Float[Array, ""]]:
    """Return coefficients, autocorrelations of lags 0 to p - 1, and the noise's share of the variance.

    >>> coefficients, correlations, share = levinson_durbin(jnp.array([0.5, 0.2]))
    >>> [round(float(value), 3) for value in (*coefficients, *correlations, share)]
    [0.4, 0.2, 1.0, 0.5, 0.72]
    """
    coefficients: list[Any] = []
    correlations: list[Any] = [jnp.ones(())]
    share = jnp.ones(())
    for partial in partials:
        backward = list(reversed(coefficients))
        # rho_k of the process of order k - 1, and what the new lag adds to it
        known = sum((c * rho for c, rho in zip(backward, correlations[1:], strict=True)), start=jnp.zeros(()))
        correlations.append(known + partial * share)
        coefficients = [c - partial * b for c, b in zip(coefficients, backward, strict=True)] + [partial]
        share = share * (1 - partial**2)
    return jnp.stack(coefficients), jnp.stack(correlations[:-1]), share
