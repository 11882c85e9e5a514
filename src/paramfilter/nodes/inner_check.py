"""How far an inner filter that is not exact moves the posterior: a few nodes are run with a better one.

    d(theta)               what the better filter finds for log p(y_1..y_t | theta), less what the inner filter found
    a + b'(theta - m)      a line through d at a few values of theta
    C b                    what the posterior mean would move by; m and C are the posterior's mean and covariance

To first order that is exact: a posterior times exp(b'theta) has its mean moved by C b.

The better filter is a grid for a state of one or two numbers. Where moves are narrow it would need more points than can
be afforded; it says so itself (`MovingGrid.missed`), and then the shift counts as not measured.

An inner filter that is exact has only rounding: where numbers are large beside the noise, it is run in float64.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from paramfilter import distributions
from paramfilter.errors import ModelError
from paramfilter.nodes.inner import AssumedDensity, InnerFilter, LinearPredictor, Particles
from paramfilter.nodes.inner.counts import Counts
from paramfilter.nodes.inner.moving_grid import MovingGrid
from paramfilter.nodes.replay import log_likelihood_at
from paramfilter.nodes.state import Kept, NodeState
from paramfilter.numerics.weights import at_levels
from paramfilter.tracing import evaluate
from paramfilter.types import Inputs, Numbers

if TYPE_CHECKING:
    from paramfilter.nodes.filter import NodeEngine

NUM_CHECKED, CHECKED_PER_PARAMETER = 24, 5
"""Values of theta that a check runs, at least, and for each parameter."""
FEWEST_CHECKED = 0.8
"""Share of these values at which both filters must give a number."""
MOST_WORK = 4e8
"""Moves of the state that a check may take. If all data would take more, it looks at the first of them, and
what it finds is taken to go on at the same rate."""
MOST_MISSED = 1.0
"""Nats that a grid's points may miss in all; a check ends there. Contest problems miss at most 0.4, or more than 20."""

LARGE_NUMBERS = 3e3
"""Data, or the first state, in typical changes from one observation to the next. Beyond it an exact filter is checked
for rounding, which moved means by 0.01 posterior sds at 3e4, by 0.38 at 3e6, and by 0.2 for a state that starts at
1e4."""


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
    engine: NodeEngine, state: NodeState, z: Float[Numbers, "point param"], weights: Float[Numbers, " point"]
) -> InnerShift:
    """Return how far the inner filter's error moves the posterior mean."""
    dimension = z.shape[1]
    time = min(int(state.time), engine.num_kept)
    number = max(NUM_CHECKED, CHECKED_PER_PARAMETER * dimension)
    chosen = at_levels(weights, (np.arange(number) + 0.5) / number)
    points = z[chosen].astype(jnp.result_type(float))
    if time == 0 or (engine.inner.is_exact and not _are_large(engine, state, points[number // 2])):
        return InnerShift(np.zeros(dimension))
    if engine.inner.is_exact:
        found, not_measured = _lost_to_rounding(engine, state, points), ""
    else:
        found, not_measured = _lost_to_approximation(engine, state, points)
    has_value = np.isfinite(found)
    if not not_measured and np.mean(has_value) < FEWEST_CHECKED:
        not_measured = f"{engine.inner.name} or the filter that checks it gives no number"
    if not_measured:
        return InnerShift(np.full(dimension, np.nan), not_measured)
    apart = z - weights @ z
    sd = np.sqrt(weights @ apart**2)
    terms = np.concatenate([np.ones((number, 1)), apart[chosen] / sd], axis=1)
    slopes = np.linalg.lstsq(terms[has_value], found[has_value], rcond=1e-3)[0][1:]
    correlation = (weights[:, None] * apart / sd).T @ (apart / sd)
    return InnerShift(np.abs(correlation @ slopes))


def _lost_to_approximation(
    engine: NodeEngine, state: NodeState, points: Float[Numbers, "point param"]
) -> tuple[Float[np.ndarray, " point"], str]:
    """Return what a finer filter finds more at each theta; or why that is not known."""
    finer, time = finer_than(engine.inner), int(state.time)
    if finer is None:
        return np.full(len(points), np.nan), why_unchecked(engine.inner)
    num_steps = int(np.clip(MOST_WORK / (len(points) * finer.num_moves), 1, min(time, engine.num_kept)))
    first = np.int32(0 if engine.memory is None else time - num_steps)
    found = engine.compiled(differences)(points, state.kept, first, np.int32(first + num_steps))
    found, missed = np.asarray(found, np.float64) * (engine.num_counted(time) / engine.num_counted(num_steps))
    is_fine = np.mean(missed) <= MOST_MISSED  # it may be NaN
    return found, "" if is_fine else f"the grid that checks {engine.inner.name} is too coarse for the narrow moves"


def _are_large(engine: NodeEngine, state: NodeState, z: Float[Numbers, " param"]) -> bool:
    """Tell whether numbers are so large beside typical changes of the data that rounding in float32 may matter."""
    if jnp.result_type(float) == np.float64:
        return False
    length = min(int(state.time), engine.num_kept)
    rows = np.concatenate([np.reshape(leaf[:length], (length, -1)) for leaf in jax.tree.leaves(state.kept.ys)], axis=1)
    changes, sizes = np.abs(np.diff(rows, axis=0)), np.abs(rows)
    has_changes = np.any(changes > 0, axis=0)
    if not np.any(has_changes):
        return False
    typical = np.nanmedian(np.where(changes > 0, changes, np.nan)[:, has_changes], axis=0)
    largest = np.nanmax(sizes[:, has_changes], axis=0) / typical
    first = evaluate(functools.partial(_size_of_first_state, engine), z, state.kept.initial_inputs)
    return bool(max(np.max(largest), first / np.min(typical)) > LARGE_NUMBERS)


def _size_of_first_state(engine: NodeEngine, z: Float[Array, " param"], inputs: Inputs) -> Float[Array, ""]:
    theta = jax.tree.map(lambda leaf: leaf[..., None], engine.model.parameters.constrain(z))
    mean, variance = map(distributions.ravel, engine.inner.moments(engine.inner.init(theta, inputs)))
    return jnp.max(jnp.abs(mean) + jnp.sqrt(variance))


def _lost_to_rounding(
    engine: NodeEngine, state: NodeState, points: Float[Numbers, "point param"]
) -> Float[np.ndarray, " point"]:
    """Return what the same filter finds more in float64, at each theta."""
    time = int(state.time)
    length = time if engine.memory is not None else min(time, engine.num_kept)
    arguments = jax.device_get((points, state.kept, np.int32(length)))
    widen = lambda leaf: leaf.astype(np.float64) if np.issubdtype(leaf.dtype, np.floating) else leaf
    single = jax.device_get(engine.compiled(log_likelihood_at)(*arguments))
    with jax.enable_x64(True):
        double = jax.device_get(engine.compiled(log_likelihood_at)(*jax.tree.map(widen, arguments)))
    less = double.total - single.total.astype(np.float64) + (double.lost - single.lost.astype(np.float64))
    return less * (engine.num_counted(time) / engine.num_counted(length))


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
    engine: NodeEngine, z: Float[Array, "node param"], kept: Kept, first: Int[Array, ""], stop: Int[Array, ""]
) -> Float[Array, "2 node"]:
    """Return the log likelihood of the finer filter less that of the inner one, at each theta, and what it missed."""
    own, finer = engine.inner, finer_than(engine.inner)
    assert finer is not None
    theta = jax.vmap(engine.model.parameters.constrain, out_axes=-1)(z)
    constants = own.prepare(theta), finer.prepare(theta)

    def missed(finer_x):
        return jnp.zeros(len(z)) if isinstance(finer, Particles) else finer_x["missed"]

    def goes_on(carry):
        index, (_, finer_x), _ = carry
        return (index < stop) & (jnp.mean(missed(finer_x)) <= MOST_MISSED)

    def turn(carry):
        index, (x, finer_x), total = carry
        y, inputs = jax.tree.map(lambda leaf: leaf[engine.place(index)], (kept.ys, kept.inputs))
        x, found = own.step(constants[0], x, y, inputs)
        finer_x, better = finer.step(constants[1], finer_x, y, inputs)
        return index + 1, (x, finer_x), engine.share_left(1) * total + (better - found)

    start = own.init(theta, kept.initial_inputs), finer.init(theta, kept.initial_inputs)
    _, (_, finer_x), total = jax.lax.while_loop(goes_on, turn, (first, start, jnp.zeros(len(z))))
    return jnp.stack([total, missed(finer_x)])
