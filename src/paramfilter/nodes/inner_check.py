"""How far an inner filter that is not exact moves the posterior: a few nodes are run with a better one.

    d(theta)               what the better filter finds for log p(y_1..y_t | theta), less what the inner filter found
    a + b'(theta - m)      a line through d at a few values of theta
    C b                    what the posterior mean would move by; m and C are the posterior's mean and covariance

To first order that is exact: a posterior times exp(b'theta) has its mean moved by C b.

The better filter is a grid for a state of one or two numbers. Where moves are narrow it would need more points than can
be afforded; it says so itself (`MovingGrid.missed`), and then the shift counts as not measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from paramfilter.errors import ModelError
from paramfilter.nodes.inner import AssumedDensity, InnerFilter, LinearPredictor, Particles
from paramfilter.nodes.inner.counts import Counts
from paramfilter.nodes.inner.moving_grid import MovingGrid
from paramfilter.nodes.state import Kept, NodeState
from paramfilter.numerics.weights import at_levels
from paramfilter.types import Numbers

if TYPE_CHECKING:
    from paramfilter.nodes.filter import NodeFilter

NUM_CHECKED, CHECKED_PER_PARAMETER = 24, 5
"""Values of theta that a check runs, at least, and for each parameter."""
FEWEST_CHECKED = 0.8
"""Share of these values at which both filters must give a number."""
MOST_WORK = 4e8
"""Moves of the state that a check may take. If all data would take more, it looks at the first of them, and
what it finds is taken to go on at the same rate."""
MOST_MISSED = 1.0
"""Nats that a grid's points may miss in all; a check ends there. Contest problems miss at most 0.4, or more than 20."""


@dataclass(frozen=True)
class InnerShift:
    """How far the inner filter's error moves the posterior mean.

    Attributes:
        sds: The shift of each coordinate in posterior sds; NaN if it was not measured.
        not_measured: Why it was not measured; empty if it was.
    """

    sds: Float[np.ndarray, " param"]
    not_measured: str = ""


def shift_of_mean(
    filter: NodeFilter, state: NodeState, z: Float[Numbers, "point param"], weights: Float[Numbers, " point"]
) -> InnerShift:
    """Return how far the inner filter's error moves the posterior mean."""
    dimension = z.shape[1]
    time = min(int(state.time), filter.num_kept)
    if filter.inner.is_exact or time == 0:
        return InnerShift(np.zeros(dimension))
    finer, unknown = finer_than(filter.inner), np.full(dimension, np.nan)
    if finer is None:
        return InnerShift(unknown, why_unchecked(filter.inner))
    number = max(NUM_CHECKED, CHECKED_PER_PARAMETER * dimension)
    chosen = at_levels(weights, (np.arange(number) + 0.5) / number)
    num_steps = int(np.clip(MOST_WORK / (number * finer.num_moves), 1, time))
    apart = z - weights @ z
    first = np.int32(0 if filter.memory is None else int(state.time) - num_steps)
    points = z[chosen].astype(jnp.result_type(float))
    found = filter.compiled(differences)(points, state.kept, first, np.int32(first + num_steps))
    found, missed = np.asarray(found, np.float64) * (
        filter.num_counted(int(state.time)) / filter.num_counted(num_steps)
    )
    if not np.mean(missed) <= MOST_MISSED:  # it may be NaN
        return InnerShift(unknown, f"the grid that checks {filter.inner.name} is too coarse for the narrow moves")
    has_value = np.isfinite(found)
    if np.mean(has_value) < FEWEST_CHECKED:
        return InnerShift(unknown, f"{filter.inner.name} or the filter that checks it gives no number")
    sd = np.sqrt(weights @ apart**2)
    terms = np.concatenate([np.ones((number, 1)), apart[chosen] / sd], axis=1)
    slopes = np.linalg.lstsq(terms[has_value], found[has_value], rcond=1e-3)[0][1:]
    correlation = (weights[:, None] * apart / sd).T @ (apart / sd)
    return InnerShift(np.abs(correlation @ slopes))


def why_unchecked(inner: InnerFilter) -> str:
    """Return why the error of an inner filter is not known before it is checked on data; empty if it is exact."""
    if inner.is_exact:
        return ""
    if finer_than(inner) is None:
        return f"{inner.name} is approximate, and no check exists for a state of more than two numbers"
    return f"{inner.name} is approximate, and posterior.error(), which checks it, was not called"


def finer_than(inner: InnerFilter) -> MovingGrid | Particles | Counts | None:
    """Return what an inner filter can be checked by; None if it is exact, or if there is nothing better."""
    if isinstance(inner, Particles | Counts):
        return inner.finer()
    if not isinstance(inner, AssumedDensity | LinearPredictor):
        return None
    try:
        return MovingGrid.around(inner if isinstance(inner, AssumedDensity) else AssumedDensity.bind(inner.model))
    except ModelError:
        return None


def differences(
    filter: NodeFilter, z: Float[Array, "node param"], kept: Kept, first: Int[Array, ""], stop: Int[Array, ""]
) -> Float[Array, "2 node"]:
    """Return the log likelihood of the finer filter less that of the inner one, at each theta, and what it missed."""
    own, finer = filter.inner, finer_than(filter.inner)
    assert finer is not None
    theta = jax.vmap(filter.model.parameters.constrain, out_axes=-1)(z)
    constants = own.prepare(theta), finer.prepare(theta)

    def missed(finer_x):
        return jnp.zeros(len(z)) if isinstance(finer, Particles) else finer_x["missed"]

    def goes_on(carry):
        index, (_, finer_x), _ = carry
        return (index < stop) & (jnp.mean(missed(finer_x)) <= MOST_MISSED)

    def turn(carry):
        index, (x, finer_x), total = carry
        y, inputs = jax.tree.map(lambda leaf: leaf[filter.place(index)], (kept.ys, kept.inputs))
        x, found = own.step(constants[0], x, y, inputs)
        finer_x, better = finer.step(constants[1], finer_x, y, inputs)
        return index + 1, (x, finer_x), filter.share_left(1) * total + (better - found)

    start = own.init(theta, kept.initial_inputs), finer.init(theta, kept.initial_inputs)
    _, (_, finer_x), total = jax.lax.while_loop(goes_on, turn, (first, start, jnp.zeros(len(z))))
    return jnp.stack([total, missed(finer_x)])
